// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/ksnoop/ksnoop/internal/unwind"
)

// goFrames tell how far the frames of Go's functions reach, from the table that Go itself
// needs to walk its stacks. Go's linker writes no .eh_frame.
type goFrames struct {
	machine *unwind.Machine
	table   goTable
	section *io.SectionReader
	quantum uint64 // size of instructions that addresses are counted in
	rows    map[uint64]*unwind.Row
}

// readGoFrames finds the frames of Go's functions. r is used as long as they are.
func (m *image) readGoFrames(r io.ReaderAt, f *elf.File) {
	s := goSection(f)
	machine := unwind.MachineOf(f.Machine)
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || machine == nil || f.ByteOrder != binary.LittleEndian || s.Offset|s.FileSize > 1<<62 {
		return
	}
	t, ok := readGoTable(r, f, s.Addr, newWindow(r, s))
	if !ok || t.values == 0 || t.count > mostFunctions {
		return
	}
	m.frames = &goFrames{machine: machine, table: t, section: io.NewSectionReader(r, int64(s.Offset), int64(s.FileSize)), quantum: 1, rows: map[uint64]*unwind.Row{}}
	if f.Machine == elf.EM_AARCH64 {
		m.frames.quantum = 4
	}
}

// Parts of struct _func in package runtime, and its flags.
const (
	funcStack    = 16 // pcsp
	funcFlags119 = 37 // up to Go 1.19
	funcFlags    = 41
	funcSize     = 44

	flagTopFrame = 1 // nothing has called it
	flagSPWrite  = 2 // it writes the stack pointer: it goes to another stack
)

// row returns the rules at a linked address; nil if it is not in a function of Go, or if to find them takes more steps than
// are left.
func (g *goFrames) row(pc uint64, left *int) *unwind.Row {
	if row, known := g.rows[pc]; known {
		return row
	}
	const most = 1 << 12
	if len(g.rows) >= most {
		clear(g.rows)
	}
	row := g.read(pc, left)
	if *left >= 0 {
		g.rows[pc] = row
	}
	return row
}

func (g *goFrames) read(pc uint64, left *int) *unwind.Row {
	entry, at, ok := g.function(pc)
	if !ok {
		return nil
	}
	var fn [funcSize]byte
	if !g.readAt(fn[:], at) {
		return nil
	}
	flags := fn[funcFlags]
	if g.table.magic == goTable118 {
		flags = fn[funcFlags119]
	}
	if flags&(flagTopFrame|flagSPWrite) != 0 {
		return &unwind.Row{Outermost: flags&flagTopFrame != 0, Switches: flags&flagSPWrite != 0}
	}
	size, ok := g.value(uint64(binary.LittleEndian.Uint32(fn[funcStack:])), entry, pc, left)
	if !ok || size < 0 {
		return nil
	}
	const word = 8
	frame := uint64(size)
	if g.machine.OnStack() {
		frame += word
	}
	row := g.machine.FrameRow(frame, size >= word)
	return &row
}

func (g *goFrames) readAt(b []byte, off uint64) bool {
	if off > 1<<40 {
		return false
	}
	_, err := g.section.ReadAt(b, int64(off))
	return err == nil
}

// function returns where the function at an address begins, and where its struct is.
func (g *goFrames) function(pc uint64) (entry, at uint64, ok bool) {
	t := &g.table
	if t.field != 4 || pc < t.text { // older than Go 1.18
		return 0, 0, false
	}
	pair := func(i uint64) (addr, off uint64, ok bool) {
		var b [8]byte
		ok = g.readAt(b[:], t.index+8*i)
		return t.text + uint64(binary.LittleEndian.Uint32(b[:])), uint64(binary.LittleEndian.Uint32(b[4:])), ok
	}
	lo, hi := uint64(0), t.count // hi: the end of the last, which has an entry too
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		addr, _, ok := pair(mid)
		if !ok {
			return 0, 0, false
		}
		if addr <= pc {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	addr, off, ok := pair(lo)
	return addr, t.entries + off, ok && lo < t.count
}

// value looks an address up in a table of values for ranges of addresses: pairs of varints,
// by how much the value changes and for how many bytes it holds. Each pair is a step.
func (g *goFrames) value(off, entry, pc uint64, left *int) (v int32, ok bool) {
	if off == 0 { // it has none
		return 0, false
	}
	start := g.table.values + off
	var buf [512]byte
	var b []byte
	next := uint64(0)
	varint := func() (uint32, bool) {
		if len(b) < binary.MaxVarintLen32 {
			n, err := g.section.ReadAt(buf[:], int64(start+next))
			if b = buf[:n]; n == 0 && err != nil {
				return 0, false
			}
		}
		u, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b, next = b[n:], next+uint64(n)
		return uint32(u), true
	}
	v = -1
	for at, first := entry, true; ; first = false {
		if *left--; *left < 0 {
			return 0, false
		}
		change, ok := varint()
		if !ok || change == 0 && !first {
			return 0, false
		}
		v += int32(change>>1) ^ -int32(change&1)
		length, ok := varint()
		if !ok {
			return 0, false
		}
		if at += uint64(length) * g.quantum; pc < at {
			return v, true
		}
	}
}
