// SPDX-License-Identifier: Apache-2.0

package folded

import (
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A process names its addresses.
type process struct{}

func (process) AppendFrame(dst []byte, addr uint64, returns bool) []byte {
	return append(dst, map[uint64]string{0x401000: "read;cancel", 0x402000: "main"}[addr]...)
}
func (process) Missing() string { return "" }

// TestSummary: keys come before the process's stack and the kernel's, and rows whose stacks read
// alike are one.
func TestSummary(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(sum(count)[$ustack, $stack, $comm, $func])")
	k.Run.User = func(*bpf.Event, string) output.Process { return process{} }
	s := k.Summed()
	s.Add(0, []any{1, 1, "a;b", 0}, 4, 8)
	s.Add(0, []any{0, 1, "cat", 0}, 1)
	s.Add(0, []any{0, 0, "cat", 0}, 0)
	p := New(k.Run, Calls)
	for range 2 {
		if text, err := p.AppendSummary(nil, s.Summary()); len(text) > 0 || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		s.Add(0, []any{7, 1, "cat", 0}, 100)
	}
	const kernel = "entry_SYSCALL_64;do_syscall;t_open;t_read"
	want := "a:b;t_read;main;read:cancel;" + kernel + " 12\ncat;t_read;[no stack];" + kernel + " 101\n"
	if got := end(t, p); got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
}

// TestNegative: a stack whose sum is below 0 has no width.
func TestNegative(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_open(sum(flags)[$stack])")
	s := k.Summed()
	s.Add(0, []any{1}, formattest.Errno(3))
	s.Add(0, []any{0}, 3)
	p := New(k.Run, Calls)
	if _, err := p.AppendSummary(nil, s.Summary()); err != nil {
		t.Fatal(err)
	}
	if got := end(t, p); got != "[no stack] 3\n" {
		t.Errorf("%q", got)
	}
}
