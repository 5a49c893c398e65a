// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// An arch tells where a kprobe program's context, struct pt_regs, has what.
type arch struct {
	args    []int16 // integer argument registers
	results []int16 // the second one is used by results of more than 8 bytes
	sp      int16
	// frame is where the frame pointer is, if the stack pointer is not known at the
	// return of a call that ftrace hands over (return_to_handler of arm64).
	frame int16
	// popped is how much higher the stack pointer is at return than it was at entry.
	popped int32
	// readsUser says that the helpers for kernel memory may read user space's as
	// well. x86 tests the address; arm64 leaves it to the CPU, and those before
	// Armv8.1 cannot keep the kernel from it (PAN).
	readsUser bool
}

// arches is never changed.
var arches = map[string]arch{
	"amd64": registers("amd64", arch{popped: 8}),
	"arm64": registers("arm64", arch{frame: offsets(ptregs.Words("arm64", "x29"))[0], readsUser: true}),
}

// registers completes a with where struct pt_regs has what.
func registers(name string, a arch) arch {
	a.args, a.results = offsets(ptregs.Arguments(name)), offsets(ptregs.Results(name))
	a.sp = offsets(ptregs.Words(name, "sp"))[0]
	return a
}

// offsets are where words of struct pt_regs begin, in bytes.
func offsets(words []int) []int16 {
	at := make([]int16, len(words))
	for i, w := range words {
		at[i] = int16(8 * w)
	}
	return at
}

// stackKey sets reg to what tells this call from all others in the system, the
// same at entry and at return. For programs that one invocation of a
// trampoline runs, that is the address of the context, which lies in the
// trampoline's stack frame.
func (a *assembler) stackKey(reg asm.Register) {
	if a.probe.Method.Trampoline() {
		if reg != a.ctx {
			a.emit(asm.Mov.Reg(reg, a.ctx))
		}
		return
	}
	if m := a.probe.Method; a.arch.frame != 0 && (m == layout.MethodKprobeMulti || m == layout.MethodKprobeSession) {
		a.emit(asm.LoadMem(reg, a.ctx, a.arch.frame, asm.DWord)) // the caller's, at both ends
		return
	}
	a.emit(asm.LoadMem(reg, a.ctx, a.arch.sp, asm.DWord))
	if a.phase == expr.AtReturn && a.arch.popped != 0 {
		a.emit(asm.Sub.Imm(reg, a.arch.popped))
	}
}

// inWords reports whether a program's context is what the kernel's function was
// called with, in words of 64 bits.
func inWords(m layout.Method) bool {
	return typesKnown(m) || m == layout.MethodRawTP
}

// typesKnown reports whether the verifier knows what these words point to.
func typesKnown(m layout.Method) bool {
	return m == layout.MethodFentry || m == layout.MethodFsession || m == layout.MethodTPBTF
}

// word loads the i-th 64-bit word of parameter p into R0.
func (a *assembler) word(p *layout.Param, i int) {
	switch {
	case a.probe.Method == layout.MethodTracingMulti:
		a.funcArg(p.Loc.Slot + i)
	case typesKnown(a.probe.Method) && isInt128(p.Type):
		a.funcArg(p.Loc.Slot + i) // the verifier lets a struct of two words be loaded, but no such number
	case inWords(a.probe.Method):
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*(p.Loc.Slot+i)), asm.DWord))
	case p.Loc.Reg >= 0:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.args[p.Loc.Reg+i], asm.DWord))
	default:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.sp, asm.DWord))
		a.probeRead(int64(p.Loc.Stack+8*i), 8, expr.Kernel)
	}
}

// isInt128 reports whether t is a number of two words.
func isInt128(t btf.Type) bool {
	n, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && n.Size > 8
}

// maxContext is how many words of its context a program on a trampoline may load
// itself, MAX_BPF_FUNC_ARGS: behind as many parameters the result is one too many.
const maxContext = 12

// resultWord loads the i-th word of the result into R0. Trampolines keep only
// the first.
func (a *assembler) resultWord(i int) {
	trampoline := a.probe.Method.Trampoline()
	switch {
	case i < len(a.arch.results) && !trampoline:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.results[i], asm.DWord))
	case i > 0:
		a.emit(asm.Ja.Label(a.failed()))
	case a.probe.Method == layout.MethodTracingMulti || slots(a.probe) >= maxContext:
		a.funcResult()
	default:
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*slots(a.probe)), asm.DWord))
	}
}

// slots is how many words of a fentry program's context the parameters take.
func slots(p *layout.Probe) int {
	n := 0
	for _, param := range p.Params {
		n += param.Loc.Slots
	}
	return n
}
