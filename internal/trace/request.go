// SPDX-License-Identifier: Apache-2.0

// Package trace runs a request, from its SPECs to what was counted at the end: Resolve and
// Choose plan it, Attach begins a Run, whose Records are read within Limits. It is the one
// place where planning, code generation and the engine are wired together. What the engine
// and the code generator both have to know is derived here from one struct, Settings.
package trace

import (
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Request is what is to be traced.
type Request struct {
	Specs    []*expr.Spec         // whose calls are sent as they happen
	Sessions *plan.SessionRequest // nil if that is all
	Options  plan.Options
	// Method is how functions are attached. MethodAuto: in the best way that the
	// kernel has.
	Method layout.Method
	// Branches says that the newest branches are wanted when a call returns.
	Branches bool
}

// A Resolved is a request for one kernel.
type Resolved struct {
	Plan    *plan.Plan
	Skipped []plan.Skipped
	Choice  attach.Choice // of the method; empty where the request says it
}

// Resolve plans a request. Choose then chooses how functions are attached. Beside an error
// it returns what was skipped.
func Resolve(view *kernel.View, r Request) (out Resolved, err error) {
	o := r.Options
	if r.Method != layout.MethodAuto {
		o.Method = func(*plan.Probe) layout.Method { return r.Method }
	}
	if r.Sessions != nil {
		out.Plan, out.Skipped, err = plan.ResolveSession(view, *r.Sessions, o)
	} else {
		out.Plan, out.Skipped, err = plan.Resolve(view, r.Specs, o)
	}
	return out, err
}

// Choose returns the request as it is best attached to the running kernel. Where the
// request says how, it is as it was. It is an error if what it takes is switched off.
func (r Resolved) Choose(view *kernel.View, request Request) (Resolved, error) {
	var err error
	auto := request.Method == layout.MethodAuto
	switch {
	case view.GivenTypes():
		r.Plan, err = attach.ChooseUntyped(r.Plan, auto)
	case auto:
		r.Plan, r.Choice, err = attach.Choose(r.Plan, view.TypeCache(), request.Branches)
	}
	if err != nil {
		return r, err
	}
	if off := switchedOff(view, r.Plan); len(off) > 0 {
		return r, obstacle(off[0])
	}
	return r, nil
}
