// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// A Recorded is what a recording has of a probe.
type Recorded struct {
	Func   kernel.Function
	Hook   Hook
	Spec   *expr.Spec // nil if no values of its calls are wanted
	Method layout.Method
	Role   layout.Role
	// Placed is layout.Probe.Placed.
	Placed bool
	// Syscall is Probe.Syscall.
	Syscall []kernel.Field
	// Way is Probe.Way, not yet restored.
	Way *Way
}

// Restore makes a plan from a recording. args is SessionRequest.Args.
func Restore(view *kernel.View, recorded []Recorded, sessions, args bool, o Options) (*Plan, error) {
	p := &Plan{Sessions: sessions, Redact: o.Redact, Owner: o.Owner, asked: o.Owner}
	for i := range recorded {
		probe, err := recorded[i].restore(view, sessions, o)
		if err != nil {
			return nil, err
		}
		probe.ID, probe.Syscall = i, recorded[i].Syscall
		if w := recorded[i].Way; w != nil && probe.Path() {
			if err := w.Restore(); err != nil {
				return nil, fmt.Errorf("%s: %w", probe.Name, err)
			}
			probe.Way = w
		}
		p.Probes = append(p.Probes, probe)
	}
	if sessions {
		var err error
		if p, err = sessionPlan(view, p.Probes, args, o); err != nil {
			return nil, err
		}
	}
	return p.With(func(probe *Probe) layout.Method { return recorded[probe.ID].Method })
}

// restore makes one probe again. The recording is untrusted: it may name roles and
// targets that no request leads to.
func (r *Recorded) restore(view *kernel.View, sessions bool, o Options) (*Probe, error) {
	switch {
	case r.Spec == nil && (!sessions || r.Role.Injected()):
		return nil, fmt.Errorf("%s: there is no SPEC of it", r.Func)
	case !r.Role.Known(), sessions == (r.Role == layout.RoleCall):
		return nil, fmt.Errorf("%s: its part in sessions is not known", r.Func)
	case r.Spec == nil:
		p := newFunction(view, r.Func, r.Hook, o.Arch)
		p.Role = r.Role
		return p, nil
	}
	o.unplaced = !r.Placed // recorded before there were places, or no function of user space
	p, err := newProbeOn(view, r.Spec, r.Func, r.Hook, o)
	if err != nil {
		return nil, err
	}
	if r.Role.Injected() {
		p.injectAs(r.Role)
	} else if sessions {
		p.Role, p.Class = r.Role, newFunction(view, r.Func, r.Hook, o.Arch).Class
	}
	return p, nil
}
