// SPDX-License-Identifier: Apache-2.0

package unwind

import "debug/elf"

// A Machine is an architecture, with the numbers that DWARF has for its registers.
type Machine struct {
	registers uint8 // how many there are that rules can name
	stack     uint8 // the stack pointer
	frame     uint8 // the frame pointer
	link      uint8 // where the return address is at the entry of a function; registers: on the stack
	pc        uint8 // the column of the return address where a CIE names none
	mask      uint64
	signal    *signalFrame
}

// MaxRegisters is how many registers any machine has.
const MaxRegisters = 35

// AMD64 numbers registers as the System V ABI does: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8
// to r15, and the return address as the 17th.
func AMD64() *Machine {
	return &Machine{registers: 17, stack: 7, frame: 6, link: 17, pc: 16, mask: 1<<56 - 1, signal: &signalAMD64}
}

// ARM64 has x0 to x30, sp as 31, and at 34 whether the return address is signed. The bits of
// an address that hold its signature are masked.
func ARM64() *Machine {
	return &Machine{registers: 35, stack: 31, frame: 29, link: 30, pc: 30, mask: 1<<48 - 1, signal: &signalARM64}
}

// MachineOf returns the machine of ELF files; nil for those that are not known.
func MachineOf(m elf.Machine) *Machine {
	switch m {
	case elf.EM_X86_64:
		return AMD64()
	case elf.EM_AARCH64:
		return ARM64()
	}
	return nil
}

// Stack returns the number of the stack pointer.
func (m *Machine) Stack() uint8 { return m.stack }

// OnStack reports whether a call puts the return address on the stack.
func (m *Machine) OnStack() bool { return m.link == m.registers }

// Regs are the registers of a frame.
type Regs struct {
	PC    uint64
	Value [MaxRegisters]uint64
	Known uint64 // a bit for each register of which the value is known
}

// Set sets a register.
func (r *Regs) Set(reg uint8, v uint64) {
	r.Value[reg] = v
	r.Known |= 1 << reg
}

func (r *Regs) get(reg uint8) (uint64, bool) {
	return r.Value[reg], r.Known>>reg&1 != 0
}

// A kind is how the value of a register is found.
type kind uint8

const (
	same          kind = iota // it has not changed
	undefined                 // it is lost
	offset                    // in memory, off from the CFA
	valOffset                 // the CFA and off
	register                  // in another register
	expression                // in memory, where an expression says
	valExpression             // an expression
	regOffset                 // a register and off; of the CFA only
)

// A rule tells one value of the calling frame.
type rule struct {
	kind kind
	reg  uint8
	off  int64 // of an expression: where it is in the section
	size uint32
}

// A Row has the rules at one address: where the frame's canonical address (CFA) is, which is
// the caller's stack pointer, and the caller's registers.
type Row struct {
	// Outermost says that there is no caller.
	Outermost bool
	// Switches says that the function goes to another stack, so that its caller is not to be
	// found by this one.
	Switches bool
	// Signal says that the kernel has made the frame: the caller was interrupted at its
	// address and has called nothing.
	Signal bool

	cfa     rule
	regs    [MaxRegisters]rule
	address uint8  // the column of the return address
	section []byte // with the expressions
}

// SigreturnSize is how many bytes of code SignalRow looks at.
func (m *Machine) SigreturnSize() int { return len(m.signal.sigreturn) }

// SignalRow returns the row of a frame that the kernel has made for a signal, if that is what code returns from; else nil.
// C libraries without unwind information have such code, and the vDSO of arm64.
func (m *Machine) SignalRow(code []byte) *Row {
	if string(code) != m.signal.sigreturn {
		return nil
	}
	regs := m.signal.registers
	r := Row{Signal: true, cfa: rule{kind: regOffset, reg: m.stack}, address: regs[len(regs)-1]}
	for i, reg := range regs {
		r.regs[reg] = rule{kind: offset, off: m.signal.context + 8*int64(i)}
	}
	return &r
}

// FrameRow returns the row of a function that takes size bytes of the stack, the return
// address included where that is on the stack, for code that tells no more than that. If
// saved is set, the frame pointer of the caller is below the return address.
func (m *Machine) FrameRow(size uint64, saved bool) Row {
	r := Row{cfa: rule{kind: regOffset, reg: m.stack, off: int64(size)}, address: m.pc}
	switch {
	case m.OnStack(): // where the call has put it
		r.regs[m.pc] = rule{kind: offset, off: -8}
		if saved {
			r.regs[m.frame] = rule{kind: offset, off: -16}
		}
	case size > 0: // Go stores it at the stack pointer, and the frame pointer below
		r.regs[m.pc] = rule{kind: offset, off: -int64(size)}
		if saved {
			r.regs[m.frame] = rule{kind: offset, off: -int64(size) - 8}
		}
	}
	return r
}

// atEntry returns the row of a function that has done nothing yet.
func (m *Machine) atEntry() Row {
	if m.OnStack() {
		return m.FrameRow(8, false)
	}
	return m.FrameRow(0, false)
}
