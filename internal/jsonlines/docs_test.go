// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/layout"
)

// reads prints calls of ksys(return) that return these values, each by a task of its sign, with
// a stack.
func reads(t *testing.T, results ...int64) []byte {
	t.Helper()
	view := testKernel(t)
	plan := resolve(t, view, "ksys(return)")
	p := newTestPrinter(t, view, plan, false)
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range results {
		e := eventOf(t, plan, 0, plan.Probes[0].Return, bpf.KindReturn, func(_ *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, uint64(n)) })
		name := "reader"
		if n > 100 {
			name = "big reader"
		}
		copy(e.Comm[:], name+"\x00")
		e.Tail = event.Tail(bpf.AppendSection(nil, &bpf.Section{Kind: bpf.SectionStack, Data: binary.LittleEndian.AppendUint64(nil, 0xffffffff81000000)}))
		if out, err = p.AppendCall(out, &calls.Call{Return: e, End: calls.Whole}); err != nil {
			t.Fatal(err)
		}
	}
	totals := &output.Totals{}
	totals.Lost[bpf.LostRingbuf] = 3
	if out, err = p.AppendEnd(out, totals); err != nil {
		t.Fatal(err)
	}
	return out
}

var command = regexp.MustCompile(`(?m)^    (jq .*)$`)

// TestJQ runs the commands of docs/json.md.
func TestJQ(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed (make packages installs it)")
	}
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"reads.json": reads(t, -2, 9, -2, 2000, -12, 1), "sessions.json": printed(t, "../../testdata/sessions.ks")} {
		check(t, text)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1 ENOMEM\n2 ENOENT\n", "2000 big reader\n10 reader\n", "array_map_alloc_check EINVAL\n", "6 \n", "{\n\"ringbuf\": 3\n}\n"}
	found := command.FindAllSubmatch(doc, -1)
	if len(found) != len(want) {
		t.Fatalf("the document has %d commands, want %d", len(found), len(want))
	}
	for i, m := range found {
		c := exec.Command("sh", "-c", string(m[1]))
		c.Dir = dir
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		var lines []string
		for line := range strings.Lines(string(out)) {
			lines = append(lines, strings.TrimLeft(line, " "))
		}
		if strings.Contains(string(m[1]), "uniq -c") {
			slices.Sort(lines)
		}
		if got := strings.Join(lines, ""); err != nil || got != want[i] {
			t.Errorf("%s\n%v %s\ngot %q, want %q", m[1], err, errs.String(), got, want[i])
		}
	}
}
