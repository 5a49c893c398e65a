// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/layout"
)

// TestStack: stacks that keys name are read without a system call on a map, of which each table would take thousands.
func TestStack(t *testing.T) {
	k := newFake(t)
	k.refuse["lookup "+bpf.MapStacks] = unix.EPERM
	tracer, _, err := k.attach(1, "(count()[$stack])", layout.MethodFentry)
	if err != nil {
		t.Fatal(err)
	}
	memory := k.mapped[bpf.MapStacks]
	if len(memory) != bpf.StacksSize {
		t.Fatalf("%d bytes of stacks are mapped, want %d", len(memory), bpf.StacksSize)
	}
	memory[0], memory[12], memory[16], memory[24] = 9, 2, 0x77, 0x88 // struct kept_stack: hash, count, two addresses
	if s, ok := tracer.Stack(1, false); !ok || !reflect.DeepEqual(s, summary.Stack{Addresses: []uint64{0x77, 0x88}}) {
		t.Errorf("%+v, %v", s, ok)
	}
	for _, number := range []uint64{0, 2, bpf.KeptStacks + 1} {
		if s, ok := tracer.Stack(number, false); ok {
			t.Errorf("number %d: %+v", number, s)
		}
	}
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	if s, ok := tracer.Stack(1, false); ok {
		t.Errorf("after the end: %+v", s)
	}
}

// TestNoStacks: what no key needs is not mapped.
func TestNoStacks(t *testing.T) {
	k := newFake(t)
	if _, _, err := k.attach(1, "(count()[count])", layout.MethodFentry); err != nil {
		t.Fatal(err)
	}
	if k.mapped[bpf.MapRows] == nil || k.mapped[bpf.MapStacks] != nil {
		t.Errorf("mapped: %d bytes of rows, %d of stacks", len(k.mapped[bpf.MapRows]), len(k.mapped[bpf.MapStacks]))
	}
}

// TestTakeRows: each time, what programs had added up is taken. For want of memory or descriptors none of it is left.
func TestTakeRows(t *testing.T) {
	k := newFake(t)
	tracer, _, err := k.attach(1, "(count()[count])", layout.MethodFentry)
	if err != nil {
		t.Fatal(err)
	}
	b := summary.NewBuilder(tracer.Tables())
	k.refuse["settler"] = unix.EMFILE
	for range 2 {
		if lost, err := tracer.TakeRows(b); lost != 0 || err != nil {
			t.Errorf("%d keys are lost, %v", lost, err)
		}
	}
	k.refuse["settle"] = unix.EPERM
	if _, err := tracer.TakeRows(b); err == nil || err.Error() != "waiting for programs to end: operation not permitted" {
		t.Error(err)
	}
	if err := tracer.Close(); err != nil || len(k.held) != 0 {
		t.Errorf("still open: %q, %v", k.held, err)
	}
	if _, _, err := k.attach(1, "(count()[count])", layout.MethodFentry); err == nil || !strings.HasPrefix(err.Error(), "mapping the tables: too many open files") {
		t.Error(err)
	}
}
