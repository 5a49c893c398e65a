// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// Condition generates a BPF function for programs of others. It takes the context of a
// program that is attached to p's function with p's method. It returns 1 if all predicates
// hold, and 0 if one does not or needs memory that cannot be read.
//
// Predicates must be decided at entry, and their Item must index p.Items. The first function
// returned is the one called name; the others are its helpers. bpf.Link joins them. Values that
// need the engine, such as $pid in a PID namespace, cannot be linked without it.
func Condition(name string, p *layout.Probe, predicates []layout.Predicate, t Options) ([]bpf.Subprogram, error) {
	if _, ok := arches[t.Arch]; !ok {
		return nil, fmt.Errorf("no code can be generated for %s", t.Arch)
	}
	for _, pred := range predicates {
		if expr.PhaseOf(pred.Term) != expr.AtEntry {
			return nil, fmt.Errorf("%s: a predicate is decided when the call returns", p.Name)
		}
	}
	t.Guard = bpf.Guard{}
	a := newAssembler(p, t, expr.AtEntry, name)
	a.conditions(predicates)
	a.say("all hold")
	a.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
	a.say("one does not")
	a.place(a.drop)
	a.place(a.fault)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	return a.program(name), nil
}
