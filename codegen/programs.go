// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// Programs are the generated functions of one probe. The first function of a list is the
// program; a list may be empty. If Either is set, one program runs at both ends of a call.
// It calls the first function of each list or, if Joined is set, contains them.
type Programs struct {
	Entry, Return []bpf.Subprogram
	Either        *bpf.Subprogram
	Joined        bool
}

// join combines the two programs if one is to run at both ends of a call.
func (out *Programs) join(p *layout.Probe, t Options) (err error) {
	if out.Entry == nil || out.Return == nil {
		return nil
	}
	switch {
	case p.Method == layout.MethodKprobeSession:
		out.Either, err = either(p, out.Entry[0].Name, out.Return[0].Name, t.kfuncs())
		if err == nil && wantsTaskStack(p, t) {
			out.Either.Insns = onTaskStack(out.Either.Insns)
		}
	case t.told != nil:
		out.Either = t.told
		calls := t.told.Insns.FunctionReferences()
		if !slices.Contains(calls, out.Entry[0].Name) {
			out.Entry = nil
		}
		if !slices.Contains(calls, out.Return[0].Name) {
			out.Return = nil
		}
	case p.AtBothEnds():
		out.Either, err = joined(p, out.Return[0].Name, t.kfuncs())
		out.Joined = true
	}
	return err
}

// program returns the emitted function, followed by the functions that only it calls.
func (a *assembler) program(name string) []bpf.Subprogram {
	insns := a.done() // done may add to a.functions
	if p := a.probe; wantsTaskStack(p, a.target) && (p.Method != layout.MethodKprobeSession || p.Entry == nil || p.Return == nil) {
		insns = onTaskStack(insns)
	}
	return append([]bpf.Subprogram{{Name: name, Args: 1, Insns: insns}}, a.functions...)
}

// wantsTaskStack reports whether a program must not have a stack of its own: see onTaskStack.
func wantsTaskStack(p *layout.Probe, t Options) bool {
	return p.Method == layout.MethodUprobe || p.Role == layout.RoleCall && t.Guard != (bpf.Guard{}) && contextElsewhere(p, t.Arch)
}

// onTaskStack has the kernel run a program on the stack that it is called on, by a tail call that is never
// made. Since Linux 6.13 programs of kprobes and tracepoints have a stack of their own for each CPU, on x86
// and later on arm64, as none runs inside another there. The same kind of program serves uprobes, where tasks
// are preempted inside it: the next task on that CPU would overwrite what the program has on that stack. And
// a program that takes the guard by its frame pointer must tell by it which stack that is. A program that
// contains a tail call gets none (check_max_stack_depth in kernel/bpf/verifier.c).
func onTaskStack(insns asm.Instructions) asm.Instructions {
	label := insns[0].Symbol()
	if label == "" {
		label = ".on_task_stack"
		insns[0] = insns[0].WithSymbol(label)
	}
	source := asm.Comment("have no stack of its own")
	return append(asm.Instructions{
		asm.Mov.Imm(asm.R0, 0).WithSource(source),
		asm.JEq.Imm(asm.R0, 0, label).WithSource(source),
		asm.FnTailCall.Call().WithSource(source),
	}, insns...)
}

// programName names a program as bpftool shows it. Shared programs have no number, so
// that equal ones stay equal.
func programName(p *layout.Probe, t Options, half string) string {
	if t.Shared {
		return "shared_" + half
	}
	return fmt.Sprintf("p%d_%s", p.ID, half)
}
