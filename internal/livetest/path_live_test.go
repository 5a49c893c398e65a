// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A pathLine is what the test reads of a call in JSON.
type pathLine struct {
	Kind string `json:"kind"`
	Path *struct {
		Text   string `json:"text"`
		Broken bool   `json:"broken"`
		Blocks []struct {
			State string `json:"state"`
		} `json:"blocks"`
		Decided struct {
			Condition string `json:"condition"`
			Error     string `json:"error"`
		} `json:"decided"`
		Decisions []struct {
			At       string `json:"at"`
			Operands []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"operands"`
		} `json:"decisions"`
	} `json:"path"`
}

// paths returns the ways of the calls in JSON.
func paths(t *testing.T, text string) (calls []pathLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var c pathLine
		if err := json.Unmarshal([]byte(line), &c); err == nil && c.Kind == "call" && c.Path != nil {
			calls = append(calls, c)
		}
	}
	return calls
}

// TestLivePath has bpf(BPF_MAP_CREATE) refused by array_map_alloc_check, whose condition begins
// with "attr->max_entries == 0 || attr->key_size != 4 ||": what the last decision compared is the
// member that is wrong, and there is one decision more before key_size.
func TestLivePath(t *testing.T) {
	guest.Require(t)
	spec := "array_map_alloc_check(path(), return < 0)"
	decisions := map[string]int{}
	conditions := map[string]string{"map-array-zero": "attr->max_entries (0) == 0", "map-array-key": "attr->key_size (3) != 4"}
	for work, value := range map[string]string{"map-array-zero": "0x0", "map-array-key": "0x3"} {
		file := recordingFile(t)
		_, errs, status := ksnoop(t, "trace", "-s", "none", "--record", file, spec, "--", "workload", work)
		out, _, replayStatus := replayed(t, file, "--format", "json")
		calls := paths(t, out)
		if status != 0 || replayStatus != 0 || len(calls) != 1 {
			t.Fatalf("%s: status %d, %d calls: %s\n%s", work, status, len(calls), errs, out)
		}
		p := calls[0].Path
		n := len(p.Decisions)
		decisions[work] = n
		if p.Broken || strings.Contains(p.Text, "unknown") || n == 0 {
			t.Fatalf("%s: %+v", work, p)
		}
		if p.Decided.Condition != conditions[work] || p.Decided.Error != "EINVAL" {
			t.Errorf("%s: decided by %+v, want %s", work, p.Decided, conditions[work])
		}
		last := p.Decisions[n-1]
		if len(last.Operands) == 0 || last.Operands[0].Value != value {
			t.Errorf("%s: the last decision is %+v, want %s", work, last, value)
		}
	}
	if decisions["map-array-key"] != decisions["map-array-zero"]+1 {
		t.Errorf("decisions: %v", decisions)
	}
}

// TestLivePathReplay: a recording prints what was printed live.
func TestLivePathReplay(t *testing.T) {
	guest.Require(t)
	for _, format := range []string{"text", "json"} {
		file := recordingFile(t)
		live := t.TempDir() + "/live"
		_, errs, status := ksnoop(t, "trace", "-s", "none", "--format", format, "-o", live, "--record", file, "--print", "vfs_read(count == 33, path())", "--", "workload", "read", "-size", "33")
		out, replayErrs, replayStatus := replayed(t, file, "--format", format)
		want, err := os.ReadFile(live)
		if err != nil {
			t.Fatal(err)
		}
		if status != 0 || replayStatus != 0 || out != string(want) || !strings.Contains(out, "passed +0x0 to ") {
			t.Errorf("%s: status %d, %d: %s%s\nlive:\n%s\nreplay:\n%s", format, status, replayStatus, errs, replayErrs, want, out)
		}
	}
}

// TestLivePathRefused: what there is no way of, and what takes --yes.
func TestLivePathRefused(t *testing.T) {
	guest.Require(t)
	for _, tt := range []struct{ spec, want string }{
		{"kprobe:vfs_read+0x9(path())", "the way from a call to its return"},
		{"vfs_read(path() > 1)", "it has no value"},
		{"vfs_read(path(3))", "takes no arguments"},
		{"vfs_*(path())", "--yes"},
	} {
		if out, errs, status := ksnoop(t, "trace", tt.spec); status != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: status %d: %s%s", tt.spec, status, out, errs)
		}
	}
	if out, errs, status := ksnoop(t, "trace", "-e", "ksys_read", "vfs_read(path())", "--", "true"); status != exitUsage || !strings.Contains(errs, "sessions cannot show it yet") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
