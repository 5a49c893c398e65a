// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// An arch says where a kprobe program finds things in its context, struct pt_regs. Offsets
// are in bytes.
type arch struct {
	args    []int16 // integer argument registers
	results []int16 // the second is used by results of more than 8 bytes
	sp      int16
	// frame is the offset of the frame pointer. It is needed where ftrace hands over a
	// return and the stack pointer is unknown (return_to_handler of arm64).
	frame int16
	// popped is how much higher the stack pointer is at return than at entry, in bytes.
	popped int32
	// readsUser says that the helpers for kernel memory may read user memory as well. x86
	// tests the address. arm64 leaves it to the CPU, and before Armv8.1 (PAN) CPUs allow
	// it.
	readsUser bool
}

// arches is never changed.
var arches = map[string]arch{
	"amd64": registers("amd64", arch{popped: 8}),
	"arm64": registers("arm64", arch{frame: offsets(ptregs.Words("arm64", "x29"))[0], readsUser: true}),
}

// registers adds the offsets of the registers in struct pt_regs to a.
func registers(name string, a arch) arch {
	a.args, a.results = offsets(ptregs.Arguments(name)), offsets(ptregs.Results(name))
	a.sp = offsets(ptregs.Words(name, "sp"))[0]
	return a
}

// offsets converts word indexes of struct pt_regs to bytes.
func offsets(words []int) []int16 {
	at := make([]int16, len(words))
	for i, w := range words {
		at[i] = int16(8 * w)
	}
	return at
}

// userKey is stackKey for a call in user space. Its stack pointer is only unique in its process, and
// the address of the saved registers only tells the thread, so the key is made of both: below, in the
// block that the thread's kernel stack is in, the stack pointer's low bits, and above, 31 of its bits.
// The low bits are multiplied, so that calls near each other, as of a function that calls itself, have
// homes far from each other: what counts there are the highest of them. R4 and R5 are lost.
func (a *assembler) userKey(reg asm.Register) {
	const sp, block = asm.R4, asm.R5
	a.userStack(sp)
	a.emit(
		asm.Mov.Reg32(block, a.ctx),
		asm.RSh.Imm(sp, 3), // it is aligned
		asm.RSh.Imm32(block, int32(bpf.StackBits)), asm.LSh.Imm32(block, int32(bpf.StackBits)),
		asm.Mov.Reg(reg, sp), asm.Mul.Imm(reg, spread), asm.And.Imm(reg, 1<<bpf.StackBits-1), asm.Or.Reg(reg, block),
		asm.LSh.Imm(sp, 33), asm.RSh.Imm(sp, 1), asm.Or.Reg(reg, sp),
	)
}

// spread is the golden section of 1<<StackBits, to the next odd number: to multiply by it is to permute.
const spread = 10125

// userName sets R1 to userKey, ctx to the context and sp to userStack: what the engine is given of a call in user space.
func (a *assembler) userName(ctx, sp asm.Register) {
	a.userKey(asm.R0)
	a.emit(asm.Mov.Reg(ctx, a.ctx))
	a.userStack(sp)
	a.emit(asm.Mov.Reg(asm.R1, asm.R0))
}

// userStack sets reg to the stack pointer in user space, the same at entry and at return.
func (a *assembler) userStack(reg asm.Register) {
	a.emit(asm.LoadMem(reg, a.ctx, a.arch.sp, asm.DWord))
	if a.phase == expr.AtReturn && a.arch.popped != 0 {
		a.emit(asm.Sub.Imm(reg, a.arch.popped))
	}
}

// stackKey sets reg to a number that identifies this call in the whole system, the same at
// entry and at return. On a trampoline that is the address of the context, which is in the
// trampoline's stack frame. Elsewhere it is the stack or frame pointer of the call.
func (a *assembler) stackKey(reg asm.Register) {
	if a.probe.Method.Trampoline() {
		if reg != a.ctx {
			a.emit(asm.Mov.Reg(reg, a.ctx))
		}
		return
	}
	if a.inProcess() {
		a.userKey(reg)
		return
	}
	m := a.probe.Method
	a.emit(a.arch.key(reg, a.ctx, m == layout.MethodKprobeMulti || m == layout.MethodKprobeSession, a.phase == expr.AtReturn)...)
}

// key returns the instructions that set reg to the key of a call whose registers ctx points to. byFtrace says that ftrace hands over
// both ends of the call.
func (x *arch) key(reg, ctx asm.Register, byFtrace, returned bool) asm.Instructions {
	if byFtrace && x.frame != 0 {
		return asm.Instructions{asm.LoadMem(reg, ctx, x.frame, asm.DWord)} // the caller's frame: the same at both ends
	}
	load := asm.Instructions{asm.LoadMem(reg, ctx, x.sp, asm.DWord)}
	if returned && x.popped != 0 {
		load = append(load, asm.Sub.Imm(reg, x.popped))
	}
	return load
}

// Paired is what the program of TryPairing stores if a call's return can be told by what is known at its entry.
const Paired = 1

// TryPairing returns a program that is to run at both ends of calls, by kprobe.multi or kprobe.session. It stores
// Paired in a map, for the task, if both ends of a call have the same key, as programs need that keep something in between. If not, it is
// another odd number; if only the entry was seen, it is even. The map is a hash of 8 bytes by 8 bytes.
func TryPairing(arch string, m int) asm.Instructions {
	const task, key = -8, -16 // on the stack
	x := arches[arch]
	at := func(offset int32) asm.Instructions {
		return asm.Instructions{asm.LoadMapPtr(asm.R1, m), asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, offset)}
	}
	p := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.FnGetCurrentPidTgid.Call(), asm.StoreMem(asm.R10, task, asm.R0, asm.DWord)}
	p = append(append(p, at(task)...), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "entry"))
	p = append(append(p, x.key(asm.R1, asm.R6, true, true)...), asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord), asm.Sub.Reg(asm.R2, asm.R1),
		asm.LSh.Imm(asm.R2, 1), asm.Or.Imm(asm.R2, Paired), asm.StoreMem(asm.R0, 0, asm.R2, asm.DWord), asm.Ja.Label("end"))
	entry := append(x.key(asm.R1, asm.R6, true, false), asm.StoreMem(asm.R10, key, asm.R1, asm.DWord))
	entry[0] = entry[0].WithSymbol("entry")
	p = append(append(p, entry...), at(task)...)
	return append(p, asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, key), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// inWords reports whether the context of m's programs is an array of 64-bit words, as the
// traced function was called with, rather than struct pt_regs.
func inWords(m layout.Method) bool {
	return typesKnown(m) || m == layout.MethodRawTP
}

// typesKnown reports whether the verifier knows what these words point to.
func typesKnown(m layout.Method) bool {
	return m == layout.MethodFentry || m == layout.MethodFsession || m == layout.MethodTPBTF
}

// word loads word i of parameter p into R0. The context may be gone afterwards.
func (a *assembler) word(p *layout.Param, i int) {
	switch {
	case a.probe.Method == layout.MethodTracingMulti, a.probe.InProgram:
		a.funcArg(p.Loc.Slot + i)
	case typesKnown(a.probe.Method) && isInt128(p.Type):
		a.funcArg(p.Loc.Slot + i) // the verifier allows loads of a struct of two words, but not of an __int128
	case inWords(a.probe.Method):
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*(p.Loc.Slot+i)), asm.DWord))
	case p.Loc.Reg >= 0:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.args[p.Loc.Register(i)], asm.DWord))
	default:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.sp, asm.DWord))
		a.probeRead(int64(p.Loc.Stack+8*i), 8, a.stackSpace())
	}
}

// stackSpace is where the stack is that parameters are passed on.
func (a *assembler) stackSpace() expr.Space {
	if a.probe.Method == layout.MethodUprobe {
		return expr.User
	}
	return expr.Kernel
}

// isInt128 reports whether t is an integer of two words.
func isInt128(t btf.Type) bool {
	n, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && n.Size > 8
}

// maxContext is MAX_BPF_FUNC_ARGS: how many words of its context a trampoline program may
// load itself. Behind this many parameters, the result is one word too far.
const maxContext = 12

// resultWord loads word i of the result into R0. Trampolines only keep the first word.
func (a *assembler) resultWord(i int) {
	trampoline := a.probe.Method.Trampoline()
	switch {
	case i < len(a.arch.results) && !trampoline:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.results[layout.ResultRegister(a.probe.Result, a.target.Arch, i)], asm.DWord))
	case i > 0:
		a.emit(asm.Ja.Label(a.failed()))
	case a.probe.Method == layout.MethodTracingMulti || a.probe.InProgram || slots(a.probe) >= maxContext:
		a.funcResult()
	default:
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*slots(a.probe)), asm.DWord))
	}
}

// slots returns how many words of a fentry program's context the parameters take.
func slots(p *layout.Probe) int {
	n := 0
	for _, param := range p.Params {
		n += param.Loc.Slots
	}
	return n
}
