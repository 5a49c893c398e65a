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

// SessionKfuncs are the functions that the kernel has for programs that run at
// both ends of a call, by their BTF ids; 0 where it has none. Until Linux 6.19
// the first two take no argument, since 7.0 the context. Generated code always
// passes it: the older ones do not look at the register.
type SessionKfuncs struct {
	IsReturn btf.TypeID // bool bpf_session_is_return([void *ctx])
	Cookie   btf.TypeID // __u64 *bpf_session_cookie([void *ctx])
	Cast     btf.TypeID // void *bpf_rdonly_cast(const void *obj, __u32 type), Linux 6.2
}

// FindSessionKfuncs looks them up in the types of the kernel that the code is to
// run on.
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

// CallIsReturn sets R0 to whether a program runs at return; R1 is its context.
func (k SessionKfuncs) CallIsReturn() (asm.Instruction, error) {
	if k.IsReturn == 0 {
		return asm.Instruction{}, errNoSessions
	}
	return callKfunc(k.IsReturn), nil
}

// TrySession is a program that asks the kernel at which end it runs and for the
// cookie, and does nothing else.
func (k SessionKfuncs) TrySession() (asm.Instructions, error) {
	isReturn, err := k.CallIsReturn()
	if err != nil {
		return nil, err
	}
	return program(asm.Mov.Reg(asm.R6, asm.R1), isReturn, asm.Mov.Reg(asm.R1, asm.R6), callKfunc(k.Cookie),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord)), nil
}

// NoProgram is a program that does nothing.
func NoProgram() asm.Instructions { return program() }

// program completes a program that returns 0, with the BTF that a function has.
func program(insns ...asm.Instruction) asm.Instructions {
	return bpf.Function{Name: "try", Args: 1, Insns: append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())}.Instructions()
}

func (t *Target) kfuncs() SessionKfuncs {
	if t.Session == nil {
		return SessionKfuncs{}
	}
	return t.Session()
}

// errNoSessions is why a program cannot run at both ends of a call.
var errNoSessions = errors.New("the kernel's types have no bpf_session_is_return (Linux 6.10)")

// callKfunc calls a function of the kernel.
func callKfunc(id btf.TypeID) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id)}
}

// either is a program that the kernel runs at both ends of a call
// (kprobe.session): it calls one program at entry and another one at return.
// What it returns at entry decides whether it is run at return: not if tracing is off or
// paused.
func either(p *layout.Probe, entry, ret string, kfuncs SessionKfuncs) (*bpf.Function, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil {
		return nil, err
	}
	const label, paused, off = ".at_return", ".paused", ".off"
	var insns asm.Instructions
	var head asm.Instructions
	if p.Role == layout.RoleCall { // those of sessions ask when they would open one
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
	return &bpf.Function{Name: "session", Args: 1, Insns: insns}, nil
}

// joined is the beginning of a program that the kernel runs at both ends of a
// call (fsession): the program of the entry follows, and behind it that of the
// return, whose name is a label. Both have the context in R6. A call of each
// would cost more than what many of them do.
func joined(p *layout.Probe, ret string, kfuncs SessionKfuncs) (*bpf.Function, error) {
	isReturn, err := kfuncs.CallIsReturn()
	if err != nil || kfuncs.Cookie == 0 {
		return nil, errNoSessions
	}
	const busy = ".busy"
	var head, insns asm.Instructions
	if p.Role != layout.RoleCall { // those of calls ask when they know at which end they run
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
	return &bpf.Function{Name: "session", Args: 1, Insns: insns}, nil
}

// dropped is what a program returns for a call that is not wanted: with
// kprobe.session 1 at entry, which keeps the kernel from running it at return.
func (a *assembler) dropped() int32 {
	if a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtEntry && a.probe.Return != nil {
		return 1
	}
	return 0
}

// afterEntry reports whether the program runs only if the entry program of the
// same call has found the task wanted.
func (a *assembler) afterEntry() bool {
	return a.probe.Method == layout.MethodKprobeSession && a.phase == expr.AtReturn && a.probe.Entry != nil
}
