// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"encoding/binary"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Machine is the state of one call for expr.Eval: random arguments, and one
// piece of memory that kernel and user space see at different addresses.
// Beyond it only what certainly cannot be read is known.
type Machine struct {
	Words         []uint64 // of the arguments, one each
	Return        uint64
	Before, After []byte // the memory at entry and at return
	Kernel, User  uint64 // where it is; the page behind it is not mapped
	PID, TID, UID uint32
	Name          string
	KeptTerm      func(slot int) expr.Term

	// Unknown is set by a Read that cannot tell what the kernel would say.
	Unknown bool
}

var _ expr.Machine = (*Machine)(nil)

func image(word uint64, off uint32, p []byte) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], word)
	copy(p, b[off:])
}

// Arg is part of expr.Machine.
func (m *Machine) Arg(index int, off uint32, p []byte) { image(m.Words[index], off, p) }

// Result is part of expr.Machine.
func (m *Machine) Result(off uint32, p []byte) { image(m.Return, off, p) }

// Context is part of expr.Machine. What it knows is the same at both ends of a call.
func (m *Machine) Context(v expr.ContextVar, _ expr.Phase) uint64 {
	switch v {
	case expr.ContextPID:
		return uint64(m.PID)
	case expr.ContextTID:
		return uint64(m.TID)
	case expr.ContextUID:
		return uint64(m.UID)
	}
	m.Unknown = true
	return 0
}

// Comm is part of expr.Machine.
func (m *Machine) Comm(expr.Phase) string { return m.Name }

// Kept is part of expr.Machine.
func (m *Machine) Kept(slot int) (uint64, error) { return expr.Eval(m.KeptTerm(slot), m) }

// Read is part of expr.Machine.
func (m *Machine) Read(space expr.Space, at expr.Phase, addr uint64, p []byte) bool {
	from := m.Before
	if at == expr.AtReturn {
		from = m.After
	}
	base, bad := m.Kernel, kernelUnreadable
	if space == expr.User {
		base, bad = m.User, m.userUnreadable
	}
	known := true
	for i := range p {
		a := addr + uint64(i)
		switch off := a - base; {
		case off < uint64(len(from)):
			p[i] = from[off]
		case off < uint64(len(from)+pageSize), bad(a):
			return false
		default:
			known = false
		}
	}
	if !known {
		m.Unknown = true
	}
	return known
}

const pageSize = 4096

// kernelUnreadable is the lower half, what is not canonical, and the hole at
// the end of the address space (Documentation/arch/x86/x86_64/mm.rst).
func kernelUnreadable(a uint64) bool {
	return a < 0xff00_0000_0000_0000 || a >= 0xffff_ffff_ffe0_0000
}

// userUnreadable is everything but user space, its first page, and what lies
// around the memory, where the test has mapped nothing.
func (m *Machine) userUnreadable(a uint64) bool {
	return a >= 0x0100_0000_0000_0000 || a < pageSize || a-(m.User-1<<20) < 1<<22
}

// Pointer returns an address, mostly one that can be read.
func (g *Gen) Pointer64(m *Machine) uint64 {
	size := uint64(len(m.Before))
	switch k := g.IntN(100); {
	case k < 62:
		return m.Kernel + 8*g.Uint64N(size/8)
	case k < 67:
		return m.Kernel + g.Uint64N(size)
	case k < 73:
		return m.Kernel + size - g.Uint64N(32)
	case k < 76:
		return 0
	case k < 79:
		return g.Uint64N(3 * pageSize)
	case k < 83:
		return -(1 + g.Uint64N(4200))
	case k < 89:
		return m.User + 8*g.Uint64N(size/8)
	case k < 91:
		return m.User + size + g.Uint64N(pageSize)
	case k < 95:
		return m.Kernel + size + g.Uint64N(pageSize-64)
	case k < 97:
		return 0x8000_0000_0000_0000 + g.Uint64N(1<<40)
	}
	return -(0x1000 + g.Uint64N(0x10000))
}

// Word returns a number, mostly one at which widths and signs show.
func (g *Gen) Word() uint64 {
	switch g.IntN(8) {
	case 0:
		return g.Uint64()
	case 1:
		return g.Uint64N(16)
	case 2:
		return -g.Uint64N(16)
	case 3:
		return g.Uint64() >> g.IntN(64)
	case 4:
		return 1<<g.IntN(64) - g.Uint64N(3)
	case 5:
		return -(1 << g.IntN(64)) + g.Uint64N(3)
	case 6:
		v := g.Uint64N(256)
		return v * 0x0101010101010101
	}
	return 0
}

// Fill makes new contents for the memory.
func (g *Gen) Fill(m *Machine, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		v := g.Word()
		if g.chance(45) {
			v = g.Pointer64(m)
		}
		binary.LittleEndian.PutUint64(b[i:], v)
		if g.chance(10) {
			copy(b[i:i+8], pick(g, words)+"\x00")
		}
	}
}

// Arguments makes new arguments: pointers for pointers, numbers for numbers.
// What of a word is beyond the parameter's size is random.
func (g *Gen) Arguments(m *Machine) {
	m.Words = m.Words[:0]
	for _, p := range g.Params {
		v := g.Word()
		if _, ok := btf.UnderlyingType(p.Type).(*btf.Pointer); ok {
			v = g.Pointer64(m)
		} else if size, _ := btf.Sizeof(p.Type); size < 8 {
			v = v<<(64-8*size)>>(64-8*size) | g.Uint64()<<(8*size)
		}
		m.Words = append(m.Words, v)
	}
}
