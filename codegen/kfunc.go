// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
)

// Kfuncs holds the BTF ids of the kernel's functions that generated code calls; 0 where the kernel has none.
// Those of sessions are for programs that run at both ends of a call. Up to Linux 6.19 they take no
// argument; from 7.0 on they take the context. Generated code always passes it, and older
// kernels ignore the register.
type Kfuncs struct {
	IsReturn btf.TypeID // bool bpf_session_is_return([void *ctx])
	Cookie   btf.TypeID // __u64 *bpf_session_cookie([void *ctx])
	Cast     btf.TypeID // void *bpf_rdonly_cast(const void *obj, __u32 type), Linux 6.2
}

// FindKfuncs looks the functions up in the BTF of the kernel that the code will run
// on.
func FindKfuncs(types *btf.Spec) Kfuncs {
	id := func(name string) btf.TypeID {
		var f *btf.Func
		if types.TypeByName(name, &f) != nil {
			return 0
		}
		id, err := types.TypeID(f)
		if err != nil {
			return 0
		}
		return id
	}
	return Kfuncs{id("bpf_session_is_return"), id("bpf_session_cookie"), id("bpf_rdonly_cast")}
}

// CallIsReturn returns the instruction that sets R0 to whether the program runs at return.
// R1 must be the context.
func (k Kfuncs) CallIsReturn() (asm.Instruction, error) {
	if k.IsReturn == 0 {
		return asm.Instruction{}, errNoSessions
	}
	return callKfunc(k.IsReturn), nil
}

// TrySession returns a program that asks for the end of the call and for the cookie and
// does nothing else. Loading it proves that the kernel supports both.
func (k Kfuncs) TrySession() (asm.Instructions, error) {
	isReturn, err := k.CallIsReturn()
	if err != nil {
		return nil, err
	}
	return program(asm.Mov.Reg(asm.R6, asm.R1), isReturn, asm.Mov.Reg(asm.R1, asm.R6), callKfunc(k.Cookie),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord)), nil
}

// NoProgram returns a program that does nothing.
func NoProgram() asm.Instructions { return program() }

// program completes a program that returns 0, and gives it the BTF that a function needs.
func program(insns ...asm.Instruction) asm.Instructions {
	return bpf.Subprogram{Name: "try", Args: 1, Insns: append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())}.Instructions()
}

// errNoSessions is why no program can run at both ends of a call.
var errNoSessions = errors.New("the kernel's types have no bpf_session_is_return (Linux 6.10)")

// callKfunc calls a kernel function by its BTF id.
func callKfunc(id btf.TypeID) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id)}
}
