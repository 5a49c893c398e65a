// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Recorded is what it takes to make a function of a session again.
type Recorded struct {
	Func     kernel.Function
	Target   Target
	Spec     *expr.Spec // nil if nothing is asked of its calls
	Method   Method
	Entry    bool
	Injected Injection
	Syscall  []kernel.Field
}

// RestoreSession makes a session again; args is that of its SessionRequest.
func RestoreSession(view *kernel.View, functions []Recorded, args bool, o Options) (*Session, error) {
	s := &Session{Plan: &Plan{}}
	for _, r := range functions {
		f := &Function{Func: r.Func}
		if r.Injected == NotInjected {
			f = newFunction(r.Func, o.Arch)
		}
		f.Entry, f.Injected, f.Syscall = r.Entry, r.Injected, r.Syscall
		if r.Spec != nil {
			var err error
			if f.Probe, err = NewTargetProbe(view, r.Spec, r.Func, r.Target, o); err != nil {
				return nil, err
			}
			f.Probe.label = r.Injected.label(f.Probe)
		}
		s.Functions = append(s.Functions, f)
	}
	if err := s.complete(view, args, o); err != nil {
		return nil, err
	}
	for i, r := range functions {
		if err := s.Plan.Probes[i].SetMethod(r.Method); err != nil {
			return nil, err
		}
	}
	return s, nil
}
