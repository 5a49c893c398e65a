// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ksnoop/ksnoop/internal/dw"
)

// TestLongAugmentation: letters that fill a section, in which a CIE may begin anywhere, are not read for
// each entry anew.
func TestLongAugmentation(t *testing.T) {
	s := section{debug: true, data: bytes.Repeat([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 1}, 2<<20)} // the length, the id, the version
	table := Table{machine: AMD64()}
	if body, id, ok := s.open(0); !ok || id != noCommon || body.end < 1<<24 {
		t.Fatalf("%d, %#x, %v", body.end, id, ok)
	}
	var got *common
	// To keep 16 MB of letters takes more than twenty.
	if n := testing.AllocsPerRun(1, func() { got = table.readCommon(&s, 0) }); got != nil || n > mostLetters {
		t.Errorf("%v, %v allocations", got, n)
	}
}

// longTable has one function at 0x1000, each address of which takes all instructions.
func longTable(t *testing.T, instructions []byte) *Table {
	t.Helper()
	le := binary.LittleEndian
	common := append(le.AppendUint32(nil, 0xffffffff), 1, 0, 1, 0x78, 16, dw.CFADefCFA, rsp, 8, dw.CFAOffset|16, 1)
	data := append(le.AppendUint32(nil, uint32(len(common))), common...)
	entry := le.AppendUint64(le.AppendUint64(le.AppendUint32(nil, 0), 0x1000), 0x1000)
	entry = append(entry, instructions...)
	table, err := newTable(AMD64(), section{}, section{data: append(le.AppendUint32(data, uint32(len(entry))), entry...)})
	if err != nil || table == nil {
		t.Fatal(table, err)
	}
	return table
}

// TestLongStack: a stack whose frames take more instructions than are left ends, and says why. What was found is not
// looked for again.
func TestLongStack(t *testing.T) {
	code := oneTable{longTable(t, make([]byte, mostSteps/3))} // nops
	var returns []uint64
	for i := range uint64(9) {
		returns = append(returns, 0x1100+2*i)
	}
	regs := Regs{PC: 0x1100}
	regs.Set(rsp, 0x8000)
	w := Walker{Machine: AMD64(), Depth: 6}
	for stack, want := range []int{3, 5, 6} {
		frames, end := w.Walk(nil, &regs, stackOf(0x8000, returns[1:]...), code)
		wantEnd := EndLong
		if want == 6 {
			wantEnd = EndDepth
		}
		if len(frames) != want || end != wantEnd {
			t.Errorf("stack %d: %d frames, end %d; want %d, end %d", stack, len(frames), end, want, wantEnd)
		}
	}
}

// TestRowMemory: a row that is kept takes the memory of a Row, and nothing of what found it.
func TestRowMemory(t *testing.T) {
	const number = 256
	table := longTable(t, bytes.Repeat([]byte{dw.CFARememberState}, mostRemembered))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uint64(number) {
		left := mostSteps
		if table.Row(0x1000+i, &left) == nil {
			t.Fatalf("no row at %#x", 0x1000+i)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	one := (int(after.HeapAlloc) - int(before.HeapAlloc)) / number
	if size := int(unsafe.Sizeof(Row{})); one < size || one > size*3/2 {
		t.Errorf("a row takes %d bytes, a Row %d", one, size)
	}
	runtime.KeepAlive(table)
}

// TestLongNumber: no more of a number is read than 64 bits take.
func TestLongNumber(t *testing.T) {
	longest := binary.AppendUvarint(nil, math.MaxUint64)
	c := cursor{b: longest, end: uint64(len(longest))}
	if v := c.uleb(); v != math.MaxUint64 || c.bad || c.more() {
		t.Errorf("%#x of % x: %+v", v, longest, c)
	}
	for name, read := range map[string]func(*cursor){
		"unsigned": func(c *cursor) { c.uleb() },
		"signed":   func(c *cursor) { c.sleb() },
	} {
		c := cursor{b: bytes.Repeat([]byte{0x80}, 1<<10), end: 1 << 10}
		if read(&c); !c.bad || c.pos != uint64(len(longest)) {
			t.Errorf("%s: it ends at %d, bad: %v", name, c.pos, c.bad)
		}
	}
}
