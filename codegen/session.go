// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// SessionKfuncs holds the BTF ids of the kernel functions for programs that run at both
// ends of a call; 0 where the kernel has none. Up to Linux 6.19 the first two take no
// argument; from 7.0 on they take the context. Generated code always passes it, and older
// kernels ignore the register.
type SessionKfuncs struct {
	IsReturn btf.TypeID // bool bpf_session_is_return([void *ctx])
	Cookie   btf.TypeID // __u64 *bpf_session_cookie([void *ctx])
	Cast     btf.TypeID // void *bpf_rdonly_cast(const void *obj, __u32 type), Linux 6.2
}

// FindSessionKfuncs looks the functions up in the BTF of the kernel that the code will run
// on.
func FindSessionKfuncs(types *btf.Spec) SessionKfuncs {
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
	return SessionKfuncs{id("bpf_session_is_return"), id("bpf_session_cookie"), id("bpf_rdonly_cast")}
}

// CallIsReturn returns the instruction that sets R0 to whether the program runs at return.
// R1 must be the context.
func (k SessionKfuncs) CallIsReturn() (asm.Instruction, error) {
	if k.IsReturn == 0 {
		return asm.Instruction{}, errNoSessions
	}
	return callKfunc(k.IsReturn), nil
}

// TrySession returns a program that asks for the end of the call and for the cookie and
// does nothing else. Loading it proves that the kernel supports both.
func (k SessionKfuncs) TrySession() (asm.Instructions, error) {
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

func (t *Options) kfuncs() SessionKfuncs {
	if t.Session == nil {
		return SessionKfuncs{}
	}
	return t.Session()
}

// errNoSessions is why no program can run at both ends of a call.
var errNoSessions = errors.New("the kernel's types have no bpf_session_is_return (Linux 6.10)")

// callKfunc calls a kernel function by its BTF id.
func callKfunc(id btf.TypeID) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id)}
}

// either generates the program that kprobe.session runs at both ends of a call. It calls
// one function at entry and another at return. Its result at entry decides whether the
// kernel runs it at return; while tracing is off or paused it says no.
func either(p *layout.Probe, entry, ret string, kfuncs SessionKfuncs) (*bpf.Subprogram, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil {
		return nil, err
	}
	const label, paused, off = ".at_return", ".paused", ".off"
	var insns asm.Instructions
	var head asm.Instructions
	if p.Role == layout.RoleCall { // programs of sessions test the switch when they would open one
		head = append(bpf.AppendRunning(nil, asm.R0), asm.JNE.Imm(asm.R0, int32(bpf.On), paused))
	}
	for _, ins := range append(head,
		asm.Mov.Reg(asm.R6, asm.R1),
		isReturn,
		asm.JNE.Imm(asm.R0, 0, label),
		asm.Mov.Reg(asm.R1, asm.R6),
		call(entry),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(label),
		call(ret),
		asm.Return(),
	) {
		insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
	}
	if p.Role == layout.RoleCall {
		for _, ins := range []asm.Instruction{
			asm.JEq.Imm(asm.R0, int32(bpf.Off), off).WithSymbol(paused),
			asm.Mov.Reg(asm.R6, asm.R1),
			isReturn,
			asm.JNE.Imm(asm.R0, 0, label),
			asm.Mov.Imm(asm.R0, 1).WithSymbol(off),
			asm.Return(),
		} {
			insns = append(insns, ins.WithSource(asm.Comment("tracing is off, or paused")))
		}
	}
	return &bpf.Subprogram{Name: "session", Args: 1, Insns: insns}, nil
}

// joined generates the start of a program that fsession runs at both ends of a call. The
// code of the entry follows, and then that of the return, at label ret. Both have the
// context in R6. Calling them instead would cost more than what many of them do.
func joined(p *layout.Probe, ret string, kfuncs SessionKfuncs) (*bpf.Subprogram, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil || kfuncs.Cookie == 0 {
		return nil, errNoSessions
	}
	const busy = ".busy"
	var head, insns asm.Instructions
	if p.Role != layout.RoleCall { // those of calls test the switch once they know at which end they run
		asks := bpf.AppendRunning
		if idlesFirst(p) {
			asks = bpf.AppendOpenSessions
		}
		head = append(asks(nil, asm.R0),
			asm.JNE.Imm(asm.R0, 0, busy),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return())
	}
	for i, ins := range append(head,
		asm.Mov.Reg(asm.R6, asm.R1),
		isReturn,
		asm.JNE.Imm(asm.R0, 0, ret),
	) {
		if i > 0 && i == len(head) {
			ins = ins.WithSymbol(busy)
		}
		insns = append(insns, ins.WithSource(asm.Comment("entry or return?")))
	}
	return &bpf.Subprogram{Name: "session", Args: 1, Insns: insns}, nil
}

// dropped is the result of a program for a call that is not wanted. With kprobe.session, 1
// at entry keeps the kernel from running the program at return.
func (a *assembler) dropped() int32 {
	if a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtEntry && a.probe.Return != nil {
		return 1
	}
	return 0
}

// afterEntry reports whether the program only runs if the entry program of the same call
// accepted the task.
func (a *assembler) afterEntry() bool {
	return a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtReturn && a.probe.Entry != nil
}
