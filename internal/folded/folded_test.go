// SPDX-License-Identifier: Apache-2.0

package folded

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
)

// end returns what a printer appends at the end.
func end(t *testing.T, p *Printer) string {
	t.Helper()
	text, err := p.AppendEnd(nil, &output.Totals{})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSession(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	const below = "entry_SYSCALL_64;do_syscall;t_open"
	for w, want := range map[Weight]string{
		Calls:  below + " 2\n" + below + ";t_read 2\n" + below + ";t_read;t_alloc [mod] 2\n",
		Time:   below + " 1400\n" + below + ";t_read 400\n" + below + ";t_read;t_alloc [mod] 200\n",
		Errors: below + ";t_read;t_alloc [mod] 2\n",
		OffCPU: below + " 1000\n" + below + ";t_read 100\n",
	} {
		p := New(k.Run, w)
		for range 2 {
			x := k.Failed()
			x.HasOffCPU, x.OffCPU, x.Chain.Frames[0].OffCPU, x.Chain.Frames[1].OffCPU = true, 550, 550, 50
			if text, err := p.AppendSession(nil, x); len(text) > 0 || err != nil {
				t.Fatalf("%q, %v", text, err)
			}
		}
		if got := end(t, p); got != want {
			t.Errorf("%v:\n%swant\n%s", w, got, want)
		}
	}
}

// printCalls prints calls of read with and without a stack.
func printCalls(t *testing.T, k *formattest.Trace, p *Printer) string {
	t.Helper()
	e := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, Comm: formattest.Comm("cat")}
	stack := []uint64{formattest.Read + 5, formattest.Open + 0x50, formattest.Syscall + 0x60}
	for c := range k.Joined(k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{1}, Stack: stack}),
		k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{2}, Stack: stack}), k.Raw(formattest.Record{Func: "read", Event: e, Words: []uint64{3}})) {
		if _, err := p.AppendCall(nil, c); err != nil {
			t.Fatal(err)
		}
	}
	return end(t, p)
}

func TestCalls(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	const want = "entry_SYSCALL_64;do_syscall;t_open;t_read 2\nt_read 1\n"
	if got := printCalls(t, k, New(k.Run, Calls)); got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
}

// TestHostile: a name has no more functions, lines and weights than one.
func TestHostile(t *testing.T) {
	k := formattest.New(t, formattest.Evil)
	k.Calls("*read(count)")
	got := printCalls(t, k, New(k.Run, Calls))
	if raw := formattest.Unsafe(got); raw != "" {
		t.Errorf("%q is in %q", raw, got)
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 2 || strings.Contains(lines[0], ";") || strings.Count(lines[1], ";") != 3 || !strings.HasSuffix(lines[0], "read 1") || !strings.HasSuffix(lines[1], "read 2") {
		t.Errorf("%q", got)
	}
}

// TestLimit: stacks for which there is no room are counted together.
func TestLimit(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	p := New(k.Run, Calls)
	p.limit = 120 // the long stack only
	if got, want := printCalls(t, k, p), "entry_SYSCALL_64;do_syscall;t_open;t_read 2\n"+others+" 1\n"; got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
}

func TestWeight(t *testing.T) {
	for _, w := range []Weight{Calls, Time, Errors} {
		if got, err := ParseWeight(w.String()); got != w || err != nil {
			t.Errorf("%v: %v, %v", w, got, err)
		}
	}
	if _, err := ParseWeight("bytes"); err == nil {
		t.Error("bytes are a weight")
	}
}

// FuzzPrinter: whatever a recording has, each line is a stack with a weight.
func FuzzPrinter(f *testing.F) {
	line := regexp.MustCompile(`^[^;]+(;[^;]+)* [0-9]+$`)
	formattest.Fuzz(f, "../../testdata/calls.ks", "../../testdata/sessions.ks", func(r output.Run) formattest.Printer { return New(r, Time) }, func(t *testing.T, out []byte) {
		if raw := formattest.Unsafe(string(out)); raw != "" {
			t.Errorf("%q is in %q", raw, out)
		}
		for text := range strings.Lines(string(out)) {
			if !line.MatchString(strings.TrimSuffix(text, "\n")) {
				t.Errorf("%q", text)
			}
		}
	})
}

// TestMerge: a name may have spaces; what ends a line is its weight.
func TestMerge(t *testing.T) {
	got, err := Merge([][]byte{[]byte("a;b c 3\nd 1\n"), nil, []byte("a;b c 4\n")})
	if want := "a;b c 7\nd 1\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"a\n", "a b\n", " \n", "a -1\n"} {
		if got, err := Merge([][]byte{[]byte(bad)}); err == nil {
			t.Errorf("%q makes %q", bad, got)
		}
	}
}
