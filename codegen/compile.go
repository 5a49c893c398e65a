// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// Compile generates the programs of a probe. It fails if an architecture or a method is not
// supported, or if the stack of 512 bytes does not suffice.
func Compile(p *layout.Probe, t Options) (Programs, error) {
	if _, ok := arches[t.Arch]; !ok {
		return Programs{}, fmt.Errorf("no code can be generated for %s", t.Arch)
	}
	out, err := compileOnce(p, t)
	if errors.Is(err, errStack) && !t.sparing {
		t.sparing = true
		out, err = compileOnce(p, t)
	}
	return out, err
}

func compileOnce(p *layout.Probe, t Options) (Programs, error) {
	out, err := programs(p, t)
	if err == nil {
		err = out.checkStack(p)
	}
	if err != nil {
		return Programs{}, err
	}
	return out, nil
}

// programs generates the programs of a probe that reports calls; sessionPrograms does
// those of sessions.
func programs(p *layout.Probe, t Options) (Programs, error) {
	if p.Role != layout.RoleCall {
		return sessionPrograms(p, t)
	}
	if t.Stash == (bpf.Stash{}) {
		t.Stash = StashFor([]*layout.Probe{p})
	}
	t.told = told(p, t)
	var out Programs
	var err error
	if p.Entry != nil {
		if out.Entry, err = half(p, t, p.Entry, expr.AtEntry, entryProgram); err != nil {
			return Programs{}, err
		}
	}
	if p.Return != nil {
		if out.Return, err = half(p, t, p.Return, expr.AtReturn, returnProgram); err != nil {
			return Programs{}, err
		}
	}
	return out, out.join(p, t)
}

// half generates the functions for one end of a call: the program, and a capture function
// if the engine's table of slots cannot express the captures.
func half(p *layout.Probe, t Options, h *layout.Half, phase expr.Phase, program func(*assembler)) ([]bpf.Subprogram, error) {
	name := map[expr.Phase]string{expr.AtEntry: "entry", expr.AtReturn: "return"}[phase]
	a := newAssembler(p, t, phase, name)
	program(a)
	funcs := a.program(programName(p, t, name))
	captures := placed(h) || len(h.Stores) > 0 || phase == expr.AtReturn && cookieOf(p, t).holds()
	_, listed := List(p, h, t)
	if listed && placed(h) {
		funcs = append(funcs, placeFunction(p, t, phase, name))
	}
	if !listed && sends(h) && captures {
		a = newAssembler(p, t, phase, name+"_capture")
		if phase == expr.AtReturn {
			a.capture(h, cookieOf(p, t))
		} else {
			a.capture(h, nil)
		}
		funcs = append(funcs, bpf.Subprogram{Name: bpf.FuncCapture, Args: 2, Insns: a.done()})
		funcs = append(funcs, a.functions...)
	}
	funcs = append(funcs, t.Subprograms...)
	funcs = append(funcs, trampolineFunctions(p, t, name)...)
	return funcs, nil
}
