// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// A Plan is a fully resolved tracing request. It holds no file descriptors: a
// Plan and recorded bytes are all that is needed to decode, filter and print
// elsewhere. It does not change: what chooses a method or looks for addresses
// returns another one.
type Plan struct {
	// Probes has one element for each traced function and SPEC, of sessions one for
	// each function; a record names the probe it comes from by its index here.
	Probes []*Probe
	// Sessions says that the probes are those of sessions.
	Sessions bool
}

// Conditional reports whether some SPEC has predicates. Only sessions in which a
// call has met those of its function are reported then.
func (p *Plan) Conditional() bool {
	return slices.ContainsFunc(p.Probes, func(p *Probe) bool { return p.Conditional() })
}

// Layouts returns the layouts of all probes.
func (p *Plan) Layouts() []*layout.Probe {
	out := make([]*layout.Probe, len(p.Probes))
	for i, probe := range p.Probes {
		out[i] = &probe.Probe
	}
	return out
}

// With returns a plan whose calls are attached with the methods that method
// returns; it is asked for each of them.
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

// A Probe is one function, or another place, that is traced for one SPEC.
type Probe struct {
	layout.Probe
	// Func is the function that is traced or hooked; of a tracepoint there is
	// its name only.
	Func   kernel.Function
	Target Target // what it is traced as, unless as a function
	// Syscall are the parameters of the system call that a function of sessions serves,
	// if Args are those; nil if it serves none, or they are not known.
	Syscall []kernel.Field

	hidden int // Params at the end that no SPEC can name
	doubts []*expr.Error
	// asked is the SPEC that asks for this very function, by its name; nil if
	// there is none.
	asked *expr.Spec
}

// With returns p as it is attached with another method: what has to be kept from
// entry to return depends on it, and so do its records.
func (p *Probe) With(m layout.Method) (*Probe, error) {
	out := *p
	out.Method = m
	if err := out.Lay(); err != nil {
		return nil, err
	}
	return &out, nil
}
