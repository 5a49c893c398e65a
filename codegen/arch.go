// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// An arch tells where a kprobe program's context, struct pt_regs, has what.
type arch struct {
	args   []int16 // integer argument registers
	result int16
	sp     int16
	// popped is how much higher the stack pointer is at return than it was at entry.
	popped int32
}

// From arch/x86/include/asm/ptrace.h and arch/arm64/include/asm/ptrace.h.
var arches = map[string]arch{
	"amd64": {args: []int16{112, 104, 96, 88, 72, 64}, result: 80, sp: 152, popped: 8},
	"arm64": {args: []int16{0, 8, 16, 24, 32, 40, 48, 56}, result: 0, sp: 248},
}

// stackKey sets reg to what tells this call from all others of its thread, the
// same at entry and at return. For fentry and fexit programs, which one
// invocation of a trampoline runs, that is the address of the context, which
// lies in the trampoline's stack frame.
func (a *assembler) stackKey(reg asm.Register) {
	if a.probe.Method == plan.MethodFentry {
		if reg != a.ctx {
			a.emit(asm.Mov.Reg(reg, a.ctx))
		}
		return
	}
	a.emit(asm.LoadMem(reg, a.ctx, a.arch.sp, asm.DWord))
	if a.phase == expr.AtReturn && a.arch.popped != 0 {
		a.emit(asm.Sub.Imm(reg, a.arch.popped))
	}
}

// inWords reports whether a program's context is what the kernel's function was
// called with, in words of 64 bits.
func inWords(m plan.Method) bool {
	return m == plan.MethodFentry || m == plan.MethodTPBTF || m == plan.MethodRawTP
}

// typesKnown reports whether the verifier knows what these words point to.
func typesKnown(m plan.Method) bool { return m == plan.MethodFentry || m == plan.MethodTPBTF }

// word loads the i-th 64-bit word of parameter p into R0.
func (a *assembler) word(p *plan.Param, i int) {
	switch {
	case inWords(a.probe.Method):
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*(p.Loc.Slot+i)), asm.DWord))
	case p.Loc.Reg >= 0:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.args[p.Loc.Reg+i], asm.DWord))
	default:
		a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.sp, asm.DWord))
		a.probeRead(int64(p.Loc.Stack+8*i), 8, expr.Kernel)
	}
}

// resultWord loads the return register into R0.
func (a *assembler) resultWord() {
	if a.probe.Method == plan.MethodFentry {
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(8*slots(a.probe)), asm.DWord))
		return
	}
	a.emit(asm.LoadMem(asm.R0, a.ctx, a.arch.result, asm.DWord))
}

// slots is how many words of a fentry program's context the parameters take.
func slots(p *plan.Probe) int {
	n := 0
	for _, param := range p.Params {
		n += param.Loc.Slots
	}
	return n
}
