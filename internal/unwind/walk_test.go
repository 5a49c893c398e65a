// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"encoding/binary"
	"slices"
	"testing"
)

// rows is a Code of a few functions: each has the rules of a row for 256 bytes. At kernels is code of the kernel.
type rows map[uint64]*Row

const kernels = 0x6000

func (r rows) Row(pc uint64, _ *int) (*Row, Way, What) {
	row, ok := r[pc&^0xff]
	switch {
	case ok:
		return row, ByTable, Mapped
	case pc&^0xff == kernels:
		return nil, 0, Kernels
	}
	return nil, 0, Nothing
}

func stackOf(addr uint64, words ...uint64) Stack {
	s := Stack{Addr: addr}
	for _, w := range words {
		s.Bytes = binary.LittleEndian.AppendUint64(s.Bytes, w)
	}
	return s
}

// expressionRow has its CFA where an expression says.
func expressionRow(code ...byte) *Row {
	r := AMD64().FrameRow(8, false)
	r.cfa = rule{kind: valExpression, size: uint32(len(code))}
	r.section = code
	return &r
}

// plt is the expression of .plt in each program that GNU ld links: rsp + 8, and 8 more from
// the 12th byte of a slot of 16 bytes on.
var plt = []byte{0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}

func TestWalk(t *testing.T) {
	m := AMD64()
	leaf, frame := m.FrameRow(8, false), m.FrameRow(24, true)
	signal := leaf
	signal.Signal = true
	code := rows{
		0x1000: &leaf, 0x1100: &frame, 0x1200: {Outermost: true}, 0x1300: nil, 0x1400: {Switches: true},
		0x1500: expressionRow(plt...), 0x1600: &signal, 0x1700: expressionRow(0x2f, 0xfd, 0xff), 0x1800: expressionRow(0x22), 0x1900: expressionRow(0x70, 0),
		0x1a00: expressionRow(0x77, 8, 0x94, 1, 0x77, 0, 0x22), // rsp plus the byte at rsp + 8
	}
	for _, test := range []struct {
		name   string
		pc, fp uint64
		stack  Stack
		depth  int
		want   []uint64
		ways   []Way
		end    End
	}{
		{"to the outermost", 0x1010, 0, stackOf(0x8000, 0x1110, 1, 2, 0x1210), 9, []uint64{0x1010, 0x1110, 0x1210}, []Way{0, ByTable, ByTable}, EndOutermost},
		{"a call at the end of its function", 0x1010, 0, stackOf(0x8000, 0x1300, 1, 2, 0x1210), 9, []uint64{0x1010, 0x1300}, []Way{0, ByTable}, EndOutermost},
		{"the copy is too short", 0x1010, 0, stackOf(0x8000, 0x1110, 1, 2), 9, []uint64{0x1010, 0x1110}, []Way{0, ByTable}, EndShort},
		{"as deep as asked for", 0x1010, 0, stackOf(0x8000, 0x1110, 1, 2, 0x1210), 2, []uint64{0x1010, 0x1110}, []Way{0, ByTable}, EndDepth},
		{"nothing mapped", 0x1010, 0, stackOf(0x8000, 0x9110), 9, []uint64{0x1010, 0x9110}, []Way{0, ByTable}, EndUnmapped},
		{"by the frame pointer", 0x1310, 0x8010, stackOf(0x8000, 1, 2, 0, 0x1310), 9, []uint64{0x1310, 0x1310}, []Way{0, ByPointer}, EndOutermost},
		{"a frame pointer to the heap", 0x1310, 0x80000000, stackOf(0x8000, 1, 2), 9, []uint64{0x1310}, []Way{0}, EndNoInfo},
		{"a frame pointer to what is no code", 0x1310, 0x8000, stackOf(0x8000, 1, 2), 9, []uint64{0x1310}, []Way{0}, EndNoInfo},
		{"another stack", 0x1410, 0, stackOf(0x8000, 1, 2), 9, []uint64{0x1410}, []Way{0}, EndSwitch},
		{"a PLT before its push", 0x1506, 0, stackOf(0x8000, 0x1210, 2), 9, []uint64{0x1506, 0x1210}, []Way{0, ByTable}, EndOutermost},
		{"a PLT after its push", 0x150b, 0, stackOf(0x8000, 1, 0x1210), 9, []uint64{0x150b, 0x1210}, []Way{0, ByTable}, EndOutermost},
		{"interrupted at its first instruction", 0x1610, 0, stackOf(0x8000, 0x1200, 1), 9, []uint64{0x1610, 0x1200}, []Way{0, ByTable}, EndOutermost},
		{"a call of NULL", 0, 0, stackOf(0x8000, 0x1110, 1, 2, 0x1210), 9, []uint64{0, 0x1110, 0x1210}, []Way{0, ByCall, ByTable}, EndOutermost},
		{"interrupted at a call of NULL", 0x1610, 0, stackOf(0x8000, 0, 0x1110, 1, 2, 0x1210), 9, []uint64{0x1610, 0, 0x1110, 0x1210}, []Way{0, ByTable, ByCall, ByTable}, EndOutermost},
		{"single-stepped out of line", kernels + 0x80, 0, stackOf(0x8000, 0x1110, 1, 2, 0x1210), 9, []uint64{kernels + 0x80}, []Way{0}, EndUnmapped},
		{"at no code, which was not called", 0x9110, 0, stackOf(0x8000, 0x9220), 9, []uint64{0x9110}, []Way{0}, EndUnmapped},
		{"an expression that loops", 0x1710, 0, stackOf(0x8000, 0x1200, 1), 9, []uint64{0x1710}, []Way{0}, EndLong},
		{"an expression without operands", 0x1810, 0, stackOf(0x8000, 0x1200, 1), 9, []uint64{0x1810}, []Way{0}, EndDamaged},
		{"an unknown register", 0x1910, 0, stackOf(0x8000, 0x1200, 1), 9, []uint64{0x1910}, []Way{0}, EndLost},
		{"an expression that loads the last byte", 0x1a10, 0, Stack{Addr: 0x8000, Bytes: append(stackOf(0x8000, 0x1210).Bytes, 8)}, 9, []uint64{0x1a10, 0x1210}, []Way{0, ByTable}, EndOutermost},
	} {
		t.Run(test.name, func(t *testing.T) {
			regs := Regs{PC: test.pc}
			regs.Set(m.stack, test.stack.Addr)
			regs.Set(m.frame, test.fp)
			w := Walker{Machine: m, Depth: test.depth}
			frames, end := w.Walk(nil, &regs, test.stack, code)
			var got []uint64
			var ways []Way
			for _, f := range frames {
				got, ways = append(got, f.PC), append(ways, f.Way)
			}
			if !slices.Equal(got, test.want) || !slices.Equal(ways, test.ways) || end != test.end {
				t.Errorf("%#x %v, end %d; want %#x %v, end %d", got, ways, end, test.want, test.ways, test.end)
			}
		})
	}
}

// TestWalkNullARM64: a call of NULL has left the address to return to in the link register.
func TestWalkNullARM64(t *testing.T) {
	m := ARM64()
	leaf := m.FrameRow(16, true)
	code := rows{0x1000: &leaf, 0x1200: {Outermost: true}}
	regs := Regs{}
	regs.Set(m.stack, 0x8000)
	regs.Set(30, 0x1010)
	w := Walker{Machine: m, Depth: 9}
	frames, end := w.Walk(nil, &regs, stackOf(0x8000, 0x1210, 1), code)
	want := []Frame{{Exact: true}, {PC: 0x1010, Way: ByCall}, {PC: 0x1210, Way: ByTable}}
	if !slices.Equal(frames, want) || end != EndOutermost {
		t.Errorf("%+v, end %d; want %+v", frames, end, want)
	}
}

// TestWalkProbedReturns: a return probe's trampoline is at the beginning of a page of no file, in the place of the
// return address. The kernel knows the right one by the stack pointer at the call's entry.
func TestWalkProbedReturns(t *testing.T) {
	const trampoline = 0x7000
	leafOf := func(m *Machine) Row { return m.FrameRow(16, true) }
	for _, test := range []struct {
		name    string
		machine *Machine
		stack   Stack
		want    []uint64
		end     End
	}{
		// On amd64 the stack pointer at entry is where the return address is.
		{"one", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, trampoline, 1, 0x1210).Bytes, Returns: []Return{{0x8008, 0x1020}}}, []uint64{0x1010, 0x1020, 0x1210}, EndOutermost},
		{"a recursive function", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, trampoline, 1, trampoline, 2, trampoline).Bytes, Returns: []Return{{0x8008, 0x1030}, {0x8018, 0x1040}, {0x8028, 0x1210}}},
			[]uint64{0x1010, 0x1030, 0x1040, 0x1210}, EndOutermost},
		{"those that have returned by longjmp", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, trampoline, 1, 0x1210).Bytes, Returns: []Return{{0x7ff8, 0x9999}, {0x8008, 0x1020}}}, []uint64{0x1010, 0x1020, 0x1210}, EndOutermost},
		{"what is no trampoline stays", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, 0x2000, 1, 0x1210).Bytes, Returns: []Return{{0x8008, 0x9999}}}, []uint64{0x1010, 0x2000, 0x1210}, EndOutermost},
		{"of another call", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, trampoline).Bytes, Returns: []Return{{0x8018, 0x1210}}}, []uint64{0x1010, trampoline}, EndUnmapped},
		{"more than there is room for", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0, trampoline, 1, trampoline).Bytes, Returns: []Return{{0x8008, 0x1020}}, Cut: true}, []uint64{0x1010, 0x1020}, EndProbed},
		{"without any", AMD64(), stackOf(0x8000, 0, trampoline), []uint64{0x1010, trampoline}, EndUnmapped},
		{"by the frame pointer", AMD64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0x8010, trampoline, 0, 0x1310).Bytes, Returns: []Return{{0x8008, 0x1330}}}, []uint64{0x1310, 0x1330, 0x1310}, EndOutermost},
		// On arm64 it is what it was before the call: the function has stored the address somewhere below.
		{"arm64, by the frame pointer", ARM64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, 0x8020, trampoline, 1, 2, 0, 0x1310).Bytes, Returns: []Return{{0x8018, 0x1330}}}, []uint64{0x1310, 0x1330, 0x1310}, EndOutermost},
		{"arm64", ARM64(), Stack{Addr: 0x8000, Bytes: stackOf(0x8000, trampoline, 1, trampoline, 2).Bytes, Returns: []Return{{0x8010, 0x1020}, {0x8020, 0x1210}}}, []uint64{0x1010, 0x1020, 0x1210}, EndOutermost},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := test.machine
			leaf := leafOf(m)
			code := rows{0x1000: &leaf, 0x1200: {Outermost: true}, 0x1300: nil, 0x1f00: &leaf, 0x2000: &leaf}
			regs := Regs{PC: test.want[0]}
			regs.Set(m.stack, 0x8000)
			regs.Set(m.frame, 0x8000)
			w := Walker{Machine: m, Depth: 9}
			frames, end := w.Walk(nil, &regs, test.stack, code)
			var got []uint64
			for _, f := range frames {
				got = append(got, f.PC)
			}
			if !slices.Equal(got, test.want) || end != test.end {
				t.Errorf("%#x, end %d; want %#x, end %d", got, end, test.want, test.end)
			}
		})
	}
}

// TestWalkAllocates: a stack that is like the one before takes no memory.
func TestWalkAllocates(t *testing.T) {
	m := AMD64()
	leaf := m.FrameRow(8, false)
	code := rows{0x1000: &leaf, 0x1200: {Outermost: true}}
	regs := Regs{PC: 0x1010}
	regs.Set(m.stack, 0x8000)
	stack := stackOf(0x8000, 0x1020, 0x1210)
	w := Walker{Machine: m, Depth: 9}
	var frames []Frame
	if n := testing.AllocsPerRun(100, func() { frames, _ = w.Walk(frames[:0], &regs, stack, code) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzWalk has any .eh_frame, registers and stack.
func FuzzWalk(f *testing.F) {
	table := tableOf(f, "/lib/x86_64-linux-gnu/libc.so.6")
	f.Add(table.eh.data[:4096], table.eh.addr, table.entries[3].lo+4, []byte("0123456789abcdef0123456789abcdef"), false)
	f.Add(table.eh.data[:400], uint64(0), uint64(7), plt, true)
	f.Fuzz(func(t *testing.T, data []byte, addr, pc uint64, stack []byte, debug bool) {
		for _, m := range []*Machine{AMD64(), ARM64()} {
			s := section{data: data, addr: addr}
			var table *Table
			var err error
			if debug {
				table, err = newTable(m, section{}, s)
			} else {
				table, err = newTable(m, s, section{})
			}
			if err != nil || table == nil {
				continue
			}
			pcs := []uint64{pc}
			for _, e := range table.entries[:min(len(table.entries), 16)] {
				pcs = append(pcs, e.lo, e.hi-1)
			}
			for _, pc := range pcs {
				regs := Regs{PC: pc, Known: 1<<m.registers - 1}
				regs.Set(m.stack, 0x7000)
				w := Walker{Machine: m, Depth: 64}
				if frames, _ := w.Walk(nil, &regs, Stack{Addr: 0x7000, Bytes: stack}, oneTable{table}); len(frames) > 64 {
					t.Errorf("%d frames", len(frames))
				}
			}
		}
	})
}

// oneTable is a process with one file, mapped at 0.
type oneTable struct{ table *Table }

func (o oneTable) Row(pc uint64, left *int) (*Row, Way, What) {
	return o.table.Row(pc, left), ByTable, Mapped
}
