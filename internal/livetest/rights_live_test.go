// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// asNobody runs ksnoop as a user who has nothing but these capabilities.
func asNobody(t *testing.T, capabilities []uintptr, args ...string) (text string, status int) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("ksnoop", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// TestLiveRights: each feature works with the capabilities that docs/safety.md has, and
// with none less; what is lacking is said.
func TestLiveRights(t *testing.T) {
	guest.Require(t)
	base := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}
	for _, less := range base {
		text, status := asNobody(t, []uintptr{less}, "trace", "vfs_read")
		if status != exitFailed || !strings.Contains(text, "tracing needs CAP_BPF and CAP_PERFMON") {
			t.Errorf("with capability %d alone: status %d, %s", less, status, text)
		}
	}
	for _, r := range livetest.Rights {
		if strings.Contains(r.Args, "=multi") && !offered(t, "multi") {
			continue
		}
		level := "2"
		if r.Feature == livetest.Paranoid {
			level = "3"
		}
		guest.Sysctl(t, "kernel.perf_event_paranoid", level)
		args := strings.Fields(r.Args)
		works := func(capabilities ...uintptr) (string, bool) {
			text, status := asNobody(t, capabilities, args...)
			return text, status == 0 && strings.Contains(text, r.Shows)
		}
		if text, ok := works(slices.Concat(base, r.Needs)...); !ok {
			t.Errorf("%s does not work:\n%.2000s", r.Feature, text)
		}
		if livetest.Smoke() {
			continue
		}
		for i := range r.Needs {
			if text, ok := works(append(slices.Delete(slices.Clone(r.Needs), i, i+1), base...)...); ok || !strings.Contains(text, r.Lacks) {
				t.Errorf("%s without %s: works %v, want %q:\n%.2000s", r.Feature, livetest.CapabilityNames[r.Needs[i]], ok, r.Lacks, text)
			}
		}
	}
}
