// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// A Call is an instruction by which code calls other code or jumps to it.
type Call struct {
	From uint64
	To   uint64 // 0 if a register or memory says where
	// At tells where it leads in terms of registers, as a SPEC has it: "$ax",
	// "*(unsigned long *)($bx + 0x10)". It is "" if To tells.
	At string
	// Probe is where a kprobe may read At when the call is about to be made: the call itself, or the
	// instruction before it where the kernel gets the call wrong, see Misemulated. It is 0 if there is
	// no such place. Sets is the register that the instruction at Probe sets after that, as At has it.
	Probe uint64
	Sets  string
	// Jump says that it does not come back: a call that ends a function, or a way to a part of
	// the function that lies elsewhere.
	Jump bool
}

// Calls finds the calls in code at an address, and jumps that leave it. Code that cannot be
// decoded is skipped.
func Calls(arch string, code []byte, addr uint64) []Call {
	var calls []Call
	end := addr + uint64(len(code))
	before := 0 // where the instruction before this one begins
	for i := 0; i < len(code); {
		here := addr + uint64(i)
		c, n := callAt(arch, code[i:], here)
		if c != nil && (!c.Jump || c.To == 0 || c.To < addr || c.To >= end) {
			c.Probe = here
			if arch == "amd64" && !c.Jump && n != callSize {
				c.Probe = 0
				if sets, ok := plainSets(code[before:i]); ok {
					c.Probe, c.Sets = addr+uint64(before), sets
				}
			}
			calls = append(calls, *c)
		}
		before = i
		i += n
	}
	return calls
}

// callAt decodes one instruction, which has n bytes. c is nil if it is no call or jump.
func callAt(arch string, code []byte, addr uint64) (c *Call, n int) {
	if arch == "arm64" {
		if len(code) < 4 {
			return nil, len(code)
		}
		return callARM64(binary.LittleEndian.Uint32(code), addr), 4
	}
	if bytes.HasPrefix(code, endbr64) {
		return nil, len(endbr64)
	}
	x, err := decodeX86(code)
	if err != nil {
		return nil, 1
	}
	return callAMD64(&x, addr), x.Len
}

// callARM64 decodes B, B.cond, CBZ, CBNZ, TBZ, TBNZ, BL, BLR and BR.
func callARM64(w uint32, addr uint64) *Call {
	in := Instruction{Addr: addr}
	if w>>26&7 != 5 {
		return nil
	}
	switch op := w >> 21 & 15; {
	case w>>26 == 0b100101:
		return &Call{From: addr, To: addr + signed(w, 26)}
	case w>>25 == 0b1101011 && (op == 0 || op == 1):
		return &Call{From: addr, At: fmt.Sprintf("$x%d", w>>5&31), Jump: op == 0}
	case w>>25 == 0b1101011:
		return nil
	}
	if in.branchARM64(w); in.flow == Jump || in.flow == Branch {
		return &Call{From: addr, To: in.Target, Jump: true}
	}
	return nil
}

func callAMD64(x *x86asm.Inst, addr uint64) *Call {
	call := x.Op == x86asm.CALL
	switch arg := x.Args[0].(type) {
	case x86asm.Rel:
		return &Call{From: addr, To: addr + uint64(x.Len) + uint64(int64(arg)), Jump: !call}
	case x86asm.Reg:
		if w, size, _ := registerAMD64(arg); w >= 0 && size == 8 && (call || x.Op == x86asm.JMP) {
			return &Call{From: addr, At: "$" + ptregs.Names("amd64")[w], Jump: !call}
		}
	case x86asm.Mem:
		if call || x.Op == x86asm.JMP {
			if at, ok := pointedAMD64(arg, addr+uint64(x.Len)); ok {
				return &Call{From: addr, At: at, Jump: !call}
			}
		}
	}
	return nil
}

// pointedAMD64 writes what memory points to.
func pointedAMD64(m x86asm.Mem, end uint64) (string, bool) {
	o, ok := memoryAMD64(m, 8, end)
	if !ok {
		return "", false
	}
	names := ptregs.Names("amd64")
	text := fmt.Sprintf("%#x", uint64(o.Disp))
	if o.Base != noWord {
		text += " + $" + names[o.Base]
	}
	if o.Index != noWord {
		text += fmt.Sprintf(" + $%s * %d", names[o.Index], o.Scale)
	}
	return "*(unsigned long *)(" + text + ")", true
}

// Thunks are the thunks of amd64 that jump to where a register says, by their names, and that
// register as Call.At has it.
func Thunks() map[string]string {
	thunks := map[string]string{}
	for r := x86asm.RAX; r <= x86asm.R15; r++ {
		w, _, _ := registerAMD64(r)
		thunks["__x86_indirect_thunk_"+strings.TrimPrefix(registerText(r), "%")] = "$" + ptregs.Names("amd64")[w]
	}
	return thunks
}
