// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bufio"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// logOf is a log as QEMU 7.2 writes it, of pieces of code as "PC SP" and of switches as "switch TASK", "switched".
func logOf(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		var pc, sp, next uint64
		switch {
		case strings.HasPrefix(p, "stopped "):
			fmt.Sscanf(p, "stopped %x", &pc)
			fmt.Fprintf(&b, "Stopped execution of TB chain before 0x7f1e2c000100 [%016x] \n", pc)
			continue
		case strings.HasPrefix(p, "switch "):
			fmt.Sscanf(p, "switch %x", &next)
			pc = 0x900
		case p == "switched":
			pc = 0x910
		default:
			fmt.Sscanf(p, "%x %x", &pc, &sp)
		}
		fmt.Fprintf(&b, "Trace 0: 0x7f1e2c000100 [0000000000000000/%016x/00c0b2b0/ff002200] \n", pc)
		fmt.Fprintf(&b, "RAX=%016x RBX=%016x RCX=%016x RDX=%016x\n", 1, 2, 3, 4)
		fmt.Fprintf(&b, "RSI=%016x RDI=%016x RBP=%016x RSP=%016x\n", next, 6, 7, sp)
		fmt.Fprintf(&b, "R8 =%016x R9 =%016x R10=%016x R11=%016x\n", 8, 9, 10, 11)
	}
	return b.String()
}

// TestExecutedLog: what a task executes is between its marks, and is not what others execute while it waits.
func TestExecutedLog(t *testing.T) {
	log := logOf("switch 1", "switched", "100 5000", "switch a", "switched", "800 4000", // the mark
		"100 3000", "stopped 100", "100 3000",
		"switch 1", "140 5000", "switched", "110 5000", "800 5000", "switch a", "150 3000", "switched",
		"120 2f00", "800 4000", "stopped 800", "800 4000", "130 3000")
	l := executedLog{mark: 0x800, switchTo: 0x900, switched: 0x910}
	in := bufio.NewReader(strings.NewReader(log + endOfLog + "more"))
	if err := l.read(in, endOfLog); err != nil {
		t.Fatal(err)
	}
	want := []entered{{0x800, 0x4000}, {0x100, 0x3000}, {0x140, 0x5000}, {0x120, 0x2f00}}
	if !reflect.DeepEqual(l.run, want) || l.runs != 1 {
		t.Errorf("%d runs, %#x, not %#x", l.runs, l.run, want)
	}
	if err := l.read(bufio.NewReader(strings.NewReader("Trace 0: 0x7f1e2c0001\n"+endOfLog)), endOfLog); err == nil {
		t.Error("a line without its end is no fault")
	}
}

// TestFrames: calls are told apart by the stack pointer: recursion, a jump to another function, an
// interrupt on another stack.
func TestFrames(t *testing.T) {
	function := func(addr uint64) *plan.Probe {
		return &plan.Probe{Way: &plan.Way{Code: code.Function{Parts: []code.Part{{Addr: addr, Bytes: make([]byte, 0x100)}}}}}
	}
	run := []entered{
		{0x1000, 0x4f00}, {0x1010, 0x4ee0}, // f
		{0x2000, 0x4e00}, {0x2010, 0x4df0}, // calls g
		{0x1000, 0x4d00}, {0x1020, 0x4ce0}, // which calls f,
		{0x2000, 0x4d00}, {0x2030, 0x4cf0}, // which jumps to g
		{0x2040, 0x4df0},
		{0x1000, 0x8f00},                   // an interrupt, on its own stack, calls f
		{0x1030, 0x4ee0},                   // back in the first f
		{0x1000, 0x4f00}, {0x1040, 0x4ee0}, // f again
	}
	calls := framesOf(run, []*plan.Probe{function(0x1000), function(0x2000)})
	var got [2][][]uint64
	for n, c := range calls {
		for _, f := range c {
			got[n] = append(got[n], f.pcs)
		}
	}
	want := [2][][]uint64{
		{{0x1000, 0x1020}, {0x1000}, {0x1000, 0x1010, 0x1030}, {0x1000, 0x1040}}, // as they return
		{{0x2000, 0x2030}, {0x2000, 0x2010, 0x2040}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#x, not %#x", got, want)
	}
}

// TestWayOf: what was entered, of code that runs on from one block to the next, that may fault, and that calls.
func TestWayOf(t *testing.T) {
	f := code.Function{Arch: "amd64", Parts: []code.Part{{Addr: 0x1000, Bytes: []byte{
		0x74, 0x04, // 1000 je 1006
		0x48, 0x8b, 0x07, // 1002 mov (%rdi),%rax, which may fault
		0x90,       // 1005 nop
		0x31, 0xc0, // 1006 xor %eax,%eax: a jump comes here
		0xe8, 0x00, 0x10, 0x00, 0x00, // 1008 call
		0xc3, // 100d ret
		0xc3, // 100e ret: where the fault leads to
	}}}, Faults: []code.Fault{{From: 0x1002, To: 0x100e}}}
	w, err := plan.NewWay(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pcs  []uint64
		want string
	}{
		{[]uint64{0x1000, 0x1002, 0x100d}, "1000 1002 1005 1006"},
		{[]uint64{0x1000, 0x1006, 0x100d}, "1000 1006"},
		{[]uint64{0x1000, 0x1002, 0x100e}, "1000 1002 100e"},
		{[]uint64{0x1000, 0x1002, 0x1002, 0x100d}, "1000 1002 1005 1006"},
	} {
		way, ok := wayOf(w, test.pcs)
		var got []string
		for i, passed := range way {
			if passed {
				got = append(got, fmt.Sprintf("%x", w.Graph().Blocks[i].Start))
			}
		}
		if !ok || strings.Join(got, " ") != test.want {
			t.Errorf("%#x: %v, not %v", test.pcs, got, test.want)
		}
	}
	if _, ok := wayOf(w, []uint64{0x1000, 0x1800}); ok {
		t.Error("code that no block has is not noticed")
	}
}
