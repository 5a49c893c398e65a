// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path/filepath"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// A Plan is a fully resolved tracing request. It holds no file descriptors: a Plan and
// recorded bytes are all that is needed to decode, filter and print elsewhere. It never
// changes: methods that choose a method of attaching or look up addresses return another
// one.
type Plan struct {
	// Probes has one element for each traced function and SPEC; in sessions, one for each
	// function. Records name their probe by its index here.
	Probes []*Probe
	// Sessions says that the probes are for sessions.
	Sessions bool
	// Redact is that of the Options: what these globs match is not captured.
	Redact []string
	// Owner is what events have of their task: of calls in each record, of sessions in their
	// header.
	Owner layout.Owner
	asked layout.Owner // Owner, and what of it is redacted
}

// Conditional reports whether any SPEC has predicates. Sessions are then only reported if
// some call satisfied those of its function.
func (p *Plan) Conditional() bool {
	return slices.ContainsFunc(p.Probes, func(p *Probe) bool { return p.Conditional() })
}

// Places reports whether a value or a key is a container or a pod.
func (p *Plan) Places() bool {
	place := func(c expr.Capture) bool { return c.View == expr.ViewContainer || c.View == expr.ViewPod }
	return slices.ContainsFunc(p.Probes, func(probe *Probe) bool {
		return slices.ContainsFunc(probe.Items, func(it expr.Item) bool {
			return slices.ContainsFunc(it.Captures, place) || it.Aggregation != nil && slices.ContainsFunc(it.Aggregation.Keys, place)
		})
	})
}

// Layouts returns the layouts of all probes.
func (p *Plan) Layouts() []*layout.Probe {
	out := make([]*layout.Probe, len(p.Probes))
	for i, probe := range p.Probes {
		out[i] = &probe.Probe
	}
	return out
}

// With returns a plan that attaches each call with the method that the function method
// returns for it.
func (p *Plan) With(method func(*Probe) layout.Method) (*Plan, error) {
	out := *p
	out.Probes = slices.Clone(p.Probes)
	for i, probe := range p.Probes {
		m := method(probe)
		if m == probe.Method {
			continue
		}
		var err error
		if out.Probes[i], err = probe.With(m); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// WithTables returns a plan whose probes add to tables: table returns the number of that of an item,
// both by their indexes.
func (p *Plan) WithTables(table func(probe, item int) int) (*Plan, error) {
	out := *p
	out.Probes = slices.Clone(p.Probes)
	for i, probe := range p.Probes {
		changed := *probe
		changed.Tables = make([]int, len(probe.Items))
		for j := range probe.Items {
			changed.Tables[j] = table(i, j)
		}
		if err := changed.Lay(); err != nil {
			return nil, err
		}
		out.Probes[i] = &changed
	}
	return &out, nil
}

// A Probe is one function or other place that is traced for one SPEC.
type Probe struct {
	layout.Probe
	// Func is the function that is traced or hooked. A tracepoint only has a name here.
	Func kernel.Function
	Hook Hook // set for anything but a function
	// Syscall has the parameters of the system call that this function serves, if sessions
	// capture all arguments and the parameters are known.
	Syscall []kernel.Field
	// Way is there where the way of calls is wanted, once the kernel's memory was read.
	Way *Way

	hidden int // parameters at the end of Params that no SPEC can name
	doubts []*expr.Error
	// asked is the SPEC that names this function without a glob; nil if none does.
	asked *expr.Spec
}

// Named returns the name of the probe's function as stacks have it, and what is in brackets behind it:
// a module or, of user space, the file.
func (p *Probe) Named() (name, module string) {
	if p.Hook.Kind == expr.UserFunction {
		return p.Func.Name, filepath.Base(p.Hook.File)
	}
	return p.Func.Name, p.Func.Module
}

// With returns p laid out for another method. The method decides what entry must keep for
// return, and so the layout of records.
func (p *Probe) With(m layout.Method) (*Probe, error) {
	out := *p
	out.Method = m
	if p.InProgram {
		out.Method = layout.MethodFentry // there is no other
	}
	if p.Path() {
		out.Method = layout.MethodKprobe // which sees the stack pointer that the call has
	}
	if err := out.Lay(); err != nil {
		return nil, err
	}
	return &out, nil
}
