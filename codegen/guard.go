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

// unlessRunning drops the call if tracing is off. If it is paused, it drops new calls, but
// not the returns of calls that were taken up before.
func (a *assembler) unlessRunning() {
	a.say("is tracing on?")
	a.emit(bpf.AppendRunning(nil, asm.R0)...)
	if a.phase == expr.AtReturn && a.probe.Stashed {
		a.emit(asm.JEq.Imm(asm.R0, int32(bpf.Off), a.drop))
		return
	}
	a.emit(asm.JNE.Imm(asm.R0, int32(bpf.On), a.drop))
}

// GuardFor returns the guard that the programs of all probes need. types is the BTF of the
// kernel, or nil. Programs of kprobes and of classic tracepoints need no guard among themselves: the
// kernel runs no two of them inside each other. Neither do programs of uprobes, which user code runs
// into. But it runs them inside those of trampolines, raw tracepoints and uprobes, and those of the
// first two inside them: in a mix, all programs take the guard.
func GuardFor(probes []*layout.Probe, types *btf.Spec) bpf.Guard {
	user, others, inside := false, false, false
	for _, p := range probes {
		switch {
		case p.Role != layout.RoleCall:
		case p.Method == layout.MethodUprobe:
			user = true
		case slices.Contains(apart[:], p.Method):
			others = true
		default:
			inside = true
		}
	}
	if !inside && !(user && others) {
		return bpf.Guard{}
	}
	return bpf.NewGuard(stackSize(types))
}

// apart lists the methods whose programs run one at a time on a CPU (bpf_prog_active in
// kernel/trace/bpf_trace.c). It is never changed.
var apart = [...]layout.Method{layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodTracepoint}

// stackSize returns the size of a kernel stack in bytes (THREAD_SIZE), or 0 if the types do
// not tell.
func stackSize(types *btf.Spec) uint32 {
	var u *btf.Union
	if types == nil || types.TypeByName("thread_union", &u) != nil {
		return 0
	}
	return u.Size
}

// guarded reports whether the program must still take the guard of its stack.
func (a *assembler) guarded() bool { return a.target.Guard != (bpf.Guard{}) && a.held == nil }

// contextElsewhere reports whether the context is not on the stack that the program runs on, but
// in memory of the CPU: the record of a tracepoint (perf_trace_buf_alloc), and the registers that
// arm64 copies for kprobe.multi (bpf_kprobe_multi_pt_regs). Programs that take the guard know their
// stack by the frame pointer then; see onTaskStack.
func contextElsewhere(p *layout.Probe, arch string) bool {
	return p.Method == layout.MethodTracepoint ||
		arch == "arm64" && (p.Method == layout.MethodKprobeMulti || p.Method == layout.MethodKprobeSession)
}

// hold takes the guard of the stack that the program runs on. If another program holds it,
// the call is dropped. From here on, the exits release the guard.
func (a *assembler) hold() {
	if !a.guarded() {
		return
	}
	a.takeHold()
	before := a.exits
	a.held, a.exits = &before, exits{drop: a.label("let_go"), fault: a.label("fault")}
}

// takeHold emits the code that takes the guard, without changing the exits.
func (a *assembler) takeHold() {
	a.say("does no other program run on this stack?")
	const place, stack = asm.R2, asm.R3
	taken, held, drop, ctx := a.label("taken"), a.label("held"), a.drop, a.ctx
	on := a.ctx
	if contextElsewhere(a.probe, a.target.Arch) {
		on = asm.RFP
	}
	a.emit(a.target.Guard.AppendHold(nil, on, place, stack, taken)...)
	a.place(held)
	a.emit(asm.StoreMem(asm.RFP, stackGuard, place, asm.DWord))
	a.later = append(a.later, func() { // behind the program: a jump taken here would be among the newest branches
		a.ctx = ctx
		a.place(taken)
		a.say("is it held by another?")
		a.saveContext()
		a.emit(asm.Mov.Reg(asm.R1, stack), call(bpf.FuncHold))
		a.restoreContext()
		a.emit(asm.JEq.Imm(asm.R0, 0, drop), asm.Mov.Reg(place, asm.R0), asm.Ja.Label(held))
	})
}

// letGo releases the guard, if the program holds it.
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

// leave places the exits and releases the guard. Calls that are not wanted and calls that
// are done continue here.
func (a *assembler) leave() {
	a.placeExits()
	if a.held == nil {
		return
	}
	a.letGo()
	a.exits, a.held = *a.held, nil
	a.placeExits()
}

// placeExits places the labels of the exits, and counts faults.
func (a *assembler) placeExits() {
	if a.faulted {
		a.emit(asm.Ja.Label(a.drop))
		a.countFault()
	}
	a.place(a.drop)
}

// lightly emits evaluate, without the guard if possible. evaluate must have no lasting
// effect before its end.
//
// Taking the guard is dear, and most calls are dropped by a predicate that needs plain
// loads only. A helper is needed only to tell a loaded 0 from a fault. If that happens, the
// program starts again at a second copy of evaluate, with the guard held. If keep is set,
// the guard is held at the end in either case.
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
