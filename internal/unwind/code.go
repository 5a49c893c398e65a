// SPDX-License-Identifier: Apache-2.0

package unwind

import "golang.org/x/arch/x86/x86asm"

// Registers by their numbers in DWARF that a function of amd64 keeps for its caller.
const (
	rbx, rbp, rsp = 3, 6, 7
	r12           = 12
)

// mostCode bounds how many bytes of a function are looked at.
const mostCode = 1 << 15

// A frameState is what a function has put on the stack at one of its instructions.
type frameState struct {
	depth int64     // bytes below the return address
	saved [16]int64 // where a register of the caller is: so many bytes below the return address; 0: in itself
	// unknown says that nothing is known.
	unknown bool
}

// CodeRow returns the rules at an address of a function of amd64 without unwind information, by
// following the stack pointer through its code: code begins at entry. It returns nil if that is
// not possible, as where the stack pointer is computed, or if it takes more steps than are left, one for each instruction.
func CodeRow(code []byte, entry, pc uint64, left *int) *Row {
	if pc < entry || pc-entry >= uint64(len(code)) || pc-entry > mostCode {
		return nil
	}
	code = code[:min(len(code), mostCode)]
	seen := make([]uint16, len(code)) // which of the states an instruction has; 0: none yet
	states := make([]frameState, 1)
	at := pc - entry
	found := -1 // where the instruction begins that has pc: a return address less 1 is inside of its call
	for work := []place{{}}; len(work) > 0; {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		for p.at < uint64(len(code)) {
			if seen[p.at] == 0 {
				seen[p.at] = uint16(len(states))
				states = append(states, p.state)
			} else if before := &states[seen[p.at]]; before.unknown || *before == p.state {
				break
			} else {
				// Two ways lead here, and one of them, as behind a call that never returns, is none.
				p.state = frameState{unknown: true}
				*before = p.state
			}
			if *left--; *left < 0 {
				return nil
			}
			inst, size, ok := decodeAt(code[p.at:])
			if !ok {
				break
			}
			next := p.at + size
			if at >= p.at && at < next {
				found = int(p.at)
			}
			if to, ok := target(&inst, next); ok && inst.Op != x86asm.CALL && to < uint64(len(code)) {
				work = append(work, place{to, p.state})
			}
			if ends(inst.Op) || !p.state.step(&inst) {
				break
			}
			p.at = next
		}
	}
	if found < 0 || states[seen[found]].unknown {
		return nil
	}
	return states[seen[found]].row()
}

// A place is an instruction that is still to be looked at.
type place struct {
	at    uint64
	state frameState
}

// decodeAt decodes an instruction. ENDBR64, which the decoder does not know, does nothing.
func decodeAt(code []byte) (inst x86asm.Inst, size uint64, ok bool) {
	const endbr = "\xf3\x0f\x1e\xfa"
	if len(code) >= len(endbr) && string(code[:len(endbr)]) == endbr {
		return x86asm.Inst{Op: x86asm.NOP}, uint64(len(endbr)), true
	}
	inst, err := x86asm.Decode(code, 64)
	return inst, uint64(inst.Len), err == nil && inst.Len > 0
}

// target returns where a jump or a call may go.
func target(inst *x86asm.Inst, next uint64) (uint64, bool) {
	rel, ok := inst.Args[0].(x86asm.Rel)
	return next + uint64(int64(rel)), ok
}

// ends reports whether what follows an instruction is not executed next.
func ends(op x86asm.Op) bool {
	switch op {
	case x86asm.JMP, x86asm.RET, x86asm.LRET, x86asm.HLT, x86asm.UD1, x86asm.UD2, x86asm.INT, x86asm.IRETQ:
		return true
	}
	return false
}

// dwarfNumbers are the numbers of registers in DWARF, from x86asm.RAX on: AX, CX, DX, BX, SP, BP, SI,
// DI, R8 to R15.
var dwarfNumbers = [16]uint8{0, 2, 1, rbx, rsp, rbp, 4, 5, 8, 9, 10, 11, r12, 13, 14, 15}

// number returns the number of a register of 64 bits.
func number(a x86asm.Arg) (uint8, bool) {
	r, ok := a.(x86asm.Reg)
	if !ok || r < x86asm.RAX || r > x86asm.R15 {
		return 0, false
	}
	return dwarfNumbers[r-x86asm.RAX], true
}

func kept(reg uint8) bool { return reg == rbx || reg == rbp || reg >= r12 }

// step executes an instruction, as far as it moves the stack pointer. It returns false if nothing
// can be said from here on.
func (s *frameState) step(inst *x86asm.Inst) bool {
	const word = 8
	if s.unknown {
		return true
	}
	reg, isReg := number(inst.Args[0])
	switch inst.Op {
	case x86asm.PUSH:
		s.depth += word
		if isReg && kept(reg) && s.saved[reg] == 0 {
			s.saved[reg] = s.depth
		}
		return inst.DataSize != 16
	case x86asm.PUSHFQ:
		s.depth += word
		return true
	case x86asm.POP, x86asm.POPFQ:
		if isReg && s.saved[reg] == s.depth {
			s.saved[reg] = 0
		}
		s.depth -= word
		return s.depth >= 0 && (!isReg || reg != rsp)
	case x86asm.LEAVE, x86asm.ENTER:
		return false
	case x86asm.XCHG, x86asm.XADD:
		other, ok := number(inst.Args[1])
		return !(isReg && reg == rsp) && !(ok && other == rsp)
	}
	if !isReg || reg != rsp || inst.Op == x86asm.CMP || inst.Op == x86asm.TEST {
		return true
	}
	switch by := inst.Args[1].(type) {
	case x86asm.Imm:
		switch inst.Op {
		case x86asm.SUB:
			s.depth += int64(by)
		case x86asm.ADD:
			s.depth -= int64(by)
		default:
			return false
		}
	case x86asm.Mem:
		if inst.Op != x86asm.LEA || by.Base != x86asm.RSP || by.Index != 0 {
			return false
		}
		s.depth -= by.Disp
	default:
		return false
	}
	return s.depth >= 0
}

// row returns the rules that the state stands for.
func (s *frameState) row() *Row {
	m := AMD64()
	row := m.FrameRow(uint64(s.depth)+8, false)
	for reg, at := range s.saved {
		if at > 0 && at <= s.depth {
			row.regs[reg] = rule{kind: offset, off: -8 - at}
		}
	}
	return &row
}
