// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"strconv"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// An assembler collects the instructions of one function. Jumps go to labels only. Every
// instruction carries the text it stands for, which the kernel quotes in the verifier's
// log.
type assembler struct {
	probe  *layout.Probe
	target Options
	arch   arch
	phase  expr.Phase
	prefix string // makes labels unique within a program

	ctx   asm.Register // holds the context; R1 does not survive helper calls
	frame asm.Register // points to the frame, in return code that has one
	base  int          // offset in bytes from the frame's start to where frame points
	// inCookie says that the session cookie, at stackCookie, holds what entry kept. There
	// is no frame then.
	inCookie bool
	// Captured data are stored at offset data, in bytes, of what dest points to. If stashing is
	// set, the fault mask is there, too, at offset mask; otherwise it is in a register.
	dest       asm.Register
	data, mask int
	stashing   bool
	// maskless is where a call goes on that has no key, if the key that is being stored has no fault
	// mask; else it is empty.
	maskless string
	depth    int // values spilled to the stack

	exits
	// held has the exits as they were before the program took its stack's guard; nil if it
	// has not.
	held *exits
	// again is the label for a call that turns out to need the guard; againUsed says
	// whether anything jumps there. reads says that some helper was called without the
	// guard. See lightly.
	again     string
	againUsed bool
	reads     bool
	later     []func() // emit the code that goes behind the program
	// counted says that the program of entry counts the faults of the predicates that are
	// being emitted.
	counted bool
	// functions are helpers of this function that nothing else calls.
	functions []bpf.Subprogram

	source  asm.Comment
	insns   asm.Instructions
	labels  int
	pending string            // label of the next instruction
	aliases map[string]string // labels that turned out to mark the same instruction
}

// Registers of a capture function. Helpers preserve all of them.
const (
	captureContext = asm.R6
	captureData    = asm.R7
	captureFaults  = asm.R8
)

// exits are the labels for a program that stops early.
type exits struct {
	drop    string // the call is not wanted
	fault   string // a predicate met a fault
	faulted bool   // whether anything jumps to fault
}

// Stack slots, in bytes below the frame pointer.
const (
	stackContext = -8  // R1 across a helper call
	stackScratch = -16 // result buffer of helpers
	stackSpill   = -32 // first spilled value; stackGuard is above it
)

// stackCookie is the stack slot for a copy of the cookie. It is free because the context is
// in a register.
const stackCookie = stackContext

// stackResult is the stack slot for the result while the cookie is looked up. The context
// is in a register then.
const stackResult = stackContext

// The session's address is on the stack, in the slot that the context would take if it were
// not in a register.
const stackSession = stackContext

// stackGuard is the stack slot for the program's place in the guard's table.
const stackGuard = -24

// stackEntry is the stack slot for the time at which the call began, in return programs of sessions. They have no guard.
const stackEntry = stackGuard

// newAssembler returns an assembler for one function of a probe. prefix keeps its labels
// apart from those of other functions.
func newAssembler(p *layout.Probe, t Options, phase expr.Phase, prefix string) *assembler {
	a := &assembler{probe: p, target: t, arch: arches[t.Arch], phase: phase, prefix: prefix,
		ctx: asm.R1, dest: captureData, mask: bpf.FrameFaults, aliases: map[string]string{}}
	if p.AtBothEnds() && t.told == nil {
		a.ctx = asm.R6 // see joined
	}
	a.drop, a.fault = a.label("drop"), a.label("fault")
	return a
}

// label returns a new label, unique within the program.
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

// say sets the source text of the instructions that follow.
func (a *assembler) say(text string) { a.source = asm.Comment(text) }

// emit appends instructions. The first one takes the label that was placed, and all
// carry the current source text.
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

// done returns the reachable instructions. All jumps go to the label that their instruction
// has.
func (a *assembler) done() asm.Instructions {
	for i := 0; i < len(a.later); i++ { // emitting may add more
		a.later[i]()
	}
	for i, ins := range a.insns {
		if to, ok := a.aliases[ins.Reference()]; ok {
			a.insns[i] = ins.WithReference(to)
		}
	}
	return reachable(a.insns)
}

// saveContext and restoreContext enclose a helper call that would clobber the context.
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

// call calls a function of the engine by its label.
func call(name string) asm.Instruction { return asm.Call.Label(name) }

// flag is b as an immediate.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// helper calls a helper. The arguments from R2 on are in place; first holds the
// instructions that set R1. A helper that reads memory needs the guard: it may be traced
// itself.
func (a *assembler) helper(fn asm.BuiltinFunc, first ...asm.Instruction) {
	if a.arch.readsUser && (fn == asm.FnProbeReadKernel || fn == asm.FnProbeReadKernelStr) {
		a.inKernel(asm.R3) // the address
	}
	a.reads = a.reads || !leaf[fn]
	a.saveContext()
	a.emit(first...)
	a.emit(fn.Call())
	a.restoreContext()
}

// leaf lists helpers too simple to be in anybody's way: they call no function, or none that
// calls another, so no traced function can run inside them.
var leaf = map[asm.BuiltinFunc]bool{asm.FnKtimeGetNs: true, asm.FnGetCurrentComm: true, asm.FnGetCurrentPidTgid: true,
	asm.FnGetCurrentUidGid: true, asm.FnGetSmpProcessorId: true, asm.FnGetCurrentTask: true,
	asm.FnGetCurrentTaskBtf: true}

// scratchAddress sets reg to the address of the scratch slot.
func scratchAddress(reg asm.Register) []asm.Instruction {
	return []asm.Instruction{asm.Mov.Reg(reg, asm.RFP), asm.Add.Imm(reg, stackScratch)}
}

// spill saves R0 to the stack. unspill pops the newest spilled value into reg.
func (a *assembler) spill() {
	a.emit(asm.StoreMem(asm.RFP, int16(stackSpill-8*a.depth), asm.R0, asm.DWord))
	a.depth++
}

func (a *assembler) unspill(reg asm.Register) {
	a.depth--
	a.emit(asm.LoadMem(reg, asm.RFP, int16(stackSpill-8*a.depth), asm.DWord))
}

// constant sets reg to v with the shortest instruction.
func (a *assembler) constant(reg asm.Register, v uint64) {
	if fitsImm(v) {
		a.emit(asm.Mov.Imm(reg, int32(v)))
		return
	}
	a.emit(asm.LoadImm(reg, int64(v), asm.DWord))
}

// fitsImm reports whether v survives as a sign-extended 32-bit immediate.
func fitsImm(v uint64) bool { return int64(v) == int64(int32(v)) }

// failed returns the label of the fault exit and marks it as used.
func (a *assembler) failed() string {
	if a.counted {
		return a.drop
	}
	a.faulted = true
	return a.fault
}
