// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"strconv"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// An assembler collects the instructions of one function. Jumps go to labels
// only; every instruction carries the text it stands for, which the kernel
// quotes in the verifier's log.
type assembler struct {
	probe  *layout.Probe
	target Target
	arch   arch
	phase  expr.Phase
	prefix string // makes labels unique within a program

	ctx   asm.Register // holds the context; R1 does not survive a helper
	frame asm.Register // points into the frame, in return code that has one
	base  int          // byte offset in the frame that it points to
	// inCookie says that the session's cookie, at stackCookie, has what entry has kept,
	// rather than a frame.
	inCookie bool
	data     int  // byte offset of the captured data from what R7 points to
	stashing bool // it is a frame, which has the set of faults; else that is in a register
	depth    int  // spilled values on the stack

	exits
	// held has the exits from before the program took hold of its stack; nil if it
	// has not.
	held *exits
	// again is where a call goes that needs the stack held after all, againUsed
	// whether anything jumps there, and reads whether a helper is called without.
	again     string
	againUsed bool
	reads     bool
	later     []func() // emit what is placed behind the program
	// functions are those that it calls and that nothing else has.
	functions []bpf.Function

	source  asm.Comment
	insns   asm.Instructions
	labels  int
	pending string            // label of the next instruction
	aliases map[string]string // labels that fell on the same instruction
}

// Stack slots, in bytes from the frame pointer down.
const (
	stackContext = -8  // R1 across a helper
	stackScratch = -16 // where helpers put what they read
	stackSpill   = -32 // the first spilled value, below stackGuard
)

func newAssembler(p *layout.Probe, t Target, phase expr.Phase, prefix string) *assembler {
	a := &assembler{probe: p, target: t, arch: arches[t.Arch], phase: phase, prefix: prefix,
		ctx: asm.R1, aliases: map[string]string{}}
	if p.AtBothEnds() {
		a.ctx = asm.R6 // see joined
	}
	a.drop, a.fault = a.label("drop"), a.label("fault")
	return a
}

// label returns a new label.
func (a *assembler) label(name string) string {
	a.labels++
	return "." + a.prefix + "_" + name + strconv.Itoa(a.labels)
}

// place puts label before the next instruction.
func (a *assembler) place(label string) {
	if a.pending != "" {
		a.aliases[label] = a.pending
		return
	}
	a.pending = label
}

// say sets the text that the next instructions stand for.
func (a *assembler) say(text string) { a.source = asm.Comment(text) }

func (a *assembler) emit(insns ...asm.Instruction) {
	for _, ins := range insns {
		ins = ins.WithSource(a.source)
		if a.pending != "" {
			ins = ins.WithSymbol(a.pending)
			a.pending = ""
		}
		a.insns = append(a.insns, ins)
	}
}

// done returns the instructions that can be reached, all labels resolved to
// their instruction's.
func (a *assembler) done() asm.Instructions {
	for i := 0; i < len(a.later); i++ { // what is emitted may add more
		a.later[i]()
	}
	for i, ins := range a.insns {
		if to, ok := a.aliases[ins.Reference()]; ok {
			a.insns[i] = ins.WithReference(to)
		}
	}
	return reachable(a.insns)
}

// saveContext and restoreContext go around the call of a helper.
func (a *assembler) saveContext() {
	if a.ctx == asm.R1 {
		a.emit(asm.StoreMem(asm.RFP, stackContext, asm.R1, asm.DWord))
	}
}

func (a *assembler) restoreContext() {
	if a.ctx == asm.R1 {
		a.emit(asm.LoadMem(asm.R1, asm.RFP, stackContext, asm.DWord))
	}
}

// passContext makes the context the first argument of a call.
func (a *assembler) passContext() {
	if a.ctx != asm.R1 {
		a.emit(asm.Mov.Reg(asm.R1, a.ctx))
	}
}

// helper calls a helper whose arguments, from R2 on, are in place; first sets R1.
func (a *assembler) helper(fn asm.BuiltinFunc, first ...asm.Instruction) {
	if a.arch.readsUser && (fn == asm.FnProbeReadKernel || fn == asm.FnProbeReadKernelStr) {
		a.emit(asm.JSGE.Imm(asm.R3, 0, a.failed())) // the address
	}
	a.reads = a.reads || a.guarded() && !leaf[fn]
	a.saveContext()
	a.emit(first...)
	a.emit(fn.Call())
	a.restoreContext()
}

// leaf are helpers that call no function, or none that calls another.
var leaf = map[asm.BuiltinFunc]bool{asm.FnKtimeGetNs: true, asm.FnGetCurrentComm: true, asm.FnGetCurrentPidTgid: true,
	asm.FnGetCurrentUidGid: true, asm.FnGetSmpProcessorId: true, asm.FnGetCurrentTask: true}

// scratchAddress sets reg to the address of the scratch slot.
func scratchAddress(reg asm.Register) []asm.Instruction {
	return []asm.Instruction{asm.Mov.Reg(reg, asm.RFP), asm.Add.Imm(reg, stackScratch)}
}

// spill saves R0; unspill brings the value back into reg.
func (a *assembler) spill() {
	a.emit(asm.StoreMem(asm.RFP, int16(stackSpill-8*a.depth), asm.R0, asm.DWord))
	a.depth++
}

func (a *assembler) unspill(reg asm.Register) {
	a.depth--
	a.emit(asm.LoadMem(reg, asm.RFP, int16(stackSpill-8*a.depth), asm.DWord))
}

// constant sets reg to v.
func (a *assembler) constant(reg asm.Register, v uint64) {
	if fitsImm(v) {
		a.emit(asm.Mov.Imm(reg, int32(v)))
		return
	}
	a.emit(asm.LoadImm(reg, int64(v), asm.DWord))
}

// fitsImm reports whether v is what a 32-bit immediate is extended to.
func fitsImm(v uint64) bool { return int64(v) == int64(int32(v)) }

// failed returns the label for faults and notes that it is used.
func (a *assembler) failed() string {
	a.faulted = true
	return a.fault
}
