// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// exits are where a program goes that does not come to its end.
type exits struct {
	drop    string // a call that is not wanted
	fault   string // a fault of a predicate
	faulted bool   // whether anything jumps there
}

// unlessRunning drops the call while the switch is off or, unless what it finds tells that
// the call was taken up before, paused.
func (a *assembler) unlessRunning() {
	a.say("is tracing on?")
	a.emit(bpf.AppendRunning(nil, asm.R0)...)
	if a.phase == expr.AtReturn && a.probe.Stashed {
		a.emit(asm.JEq.Imm(asm.R0, int32(bpf.Off), a.drop))
		return
	}
	a.emit(asm.JNE.Imm(asm.R0, int32(bpf.On), a.drop))
}

// stackGuard is where a program keeps its place in the guard's table.
const stackGuard = -24

// GuardFor returns the guard that the programs of all probes need, on a kernel with
// these types, which may be nil. Those of kprobes, and of tracepoints that do not take
// the kernel's own objects, need none: the kernel runs none of them inside another.
func GuardFor(probes []*layout.Probe, types *btf.Spec) bpf.Guard {
	if !slices.ContainsFunc(probes, func(p *layout.Probe) bool { return p.Role == layout.RoleCall && !slices.Contains(apart[:], p.Method) }) {
		return bpf.Guard{}
	}
	return bpf.NewGuard(stackSize(types))
}

// apart are the methods whose programs the kernel runs one at a time on a CPU
// (bpf_prog_active). It is never changed.
var apart = [...]layout.Method{layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodTracepoint}

// stackSize returns the size of a kernel stack in bytes, THREAD_SIZE; 0 if the types
// do not tell.
func stackSize(types *btf.Spec) uint32 {
	var u *btf.Union
	if types == nil || types.TypeByName("thread_union", &u) != nil {
		return 0
	}
	return u.Size
}

// guarded reports whether the program has to hold its stack, and does not yet. Of a
// tracepoint it does not know it: the context is elsewhere.
func (a *assembler) guarded() bool {
	return a.target.Guard != (bpf.Guard{}) && a.held == nil && a.probe.Method != layout.MethodTracepoint
}

// hold takes hold of the stack that the program runs on, and drops the call if it
// is held. From here on the program's exits are others, which let go of it.
func (a *assembler) hold() {
	if !a.guarded() {
		return
	}
	a.takeHold()
	before := a.exits
	a.held, a.exits = &before, exits{drop: a.label("let_go"), fault: a.label("fault")}
}

func (a *assembler) takeHold() {
	a.say("does no other program run on this stack?")
	const place, stack = asm.R2, asm.R3
	taken, held, drop, ctx := a.label("taken"), a.label("held"), a.drop, a.ctx
	a.emit(a.target.Guard.AppendHold(nil, a.ctx, place, stack, taken)...)
	a.place(held)
	a.emit(asm.StoreMem(asm.RFP, stackGuard, place, asm.DWord))
	a.later = append(a.later, func() { // a jump would be one of the newest branches
		a.ctx = ctx
		a.place(taken)
		a.say("is it held by another?")
		a.saveContext()
		a.emit(asm.Mov.Reg(asm.R1, stack), call(bpf.FuncHold))
		a.restoreContext()
		a.emit(asm.JEq.Imm(asm.R0, 0, drop), asm.Mov.Reg(place, asm.R0), asm.Ja.Label(held))
	})
}

// letGo lets go of the stack, if the program holds it.
func (a *assembler) letGo() {
	if a.held == nil {
		return
	}
	a.say("let go of the stack")
	const place = asm.R1
	home, done := a.label("home"), a.label("gone")
	a.emit(asm.LoadMem(place, asm.RFP, stackGuard, asm.DWord))
	a.emit(bpf.AppendAway(nil, asm.R0, place)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, home), call(bpf.FuncLetGo), asm.Ja.Label(done))
	a.place(home)
	a.emit(bpf.AppendLetGo(nil, place)...)
	a.place(done)
}

// leave places the exits, lets go of the stack, and goes on with a call that is not
// wanted as with one that is done.
func (a *assembler) leave() {
	a.placeExits()
	if a.held == nil {
		return
	}
	a.letGo()
	a.exits, a.held = *a.held, nil
	a.placeExits()
}

func (a *assembler) placeExits() {
	if a.faulted {
		a.emit(asm.Ja.Label(a.drop))
		a.countFault()
	}
	a.place(a.drop)
}

// lightly emits what evaluate does, which has no lasting effect before its end. It
// does not hold the stack if it need not: most calls are dropped by a predicate that
// loads what it needs, and only what is loaded as 0 takes a helper, to tell it from a
// fault. Such a call is evaluated again, with the stack held. If keep is set, all
// hold it at the end.
func (a *assembler) lightly(keep bool, evaluate func()) {
	if !a.guarded() {
		evaluate()
		return
	}
	before := *a
	before.aliases = maps.Clone(a.aliases)
	a.again, a.reads = a.label("again"), false
	again := a.again
	evaluate()
	if a.reads {
		*a = before
		a.hold()
		evaluate()
		return
	}
	used := a.againUsed
	a.again, a.againUsed = "", false
	outer := a.exits
	if keep {
		a.hold()
	}
	rest := a.label("rest")
	a.place(rest)
	if !used {
		return
	}
	kept := a.exits
	a.later = append(a.later, func() {
		a.ctx, a.frame, a.base, a.inCookie, a.data, a.depth = before.ctx, before.frame, before.base, before.inCookie, before.data, before.depth
		a.place(again)
		a.exits = outer
		a.takeHold()
		a.held = &outer
		a.exits = exits{drop: a.label("let_go"), fault: a.label("fault")}
		evaluate()
		if !keep {
			a.letGo()
		}
		a.emit(asm.Ja.Label(rest))
		a.placeExits()
		if keep {
			a.emit(asm.Ja.Label(kept.drop))
			return
		}
		a.letGo()
		a.emit(asm.Ja.Label(outer.drop))
	})
}
