// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// An InjectedSpec is a SPEC whose hits are noted in sessions.
type InjectedSpec struct {
	Spec   *expr.Spec
	Return bool // at returns of the selected functions
}

// injectAs makes p a probe whose hits sessions note.
func (p *Probe) injectAs(role layout.Role) {
	p.Role = role
	if role == layout.RoleInjectedReturn {
		p.Name = "kretprobe:" + p.Func.Name
	}
}

// inject adds the probes that a SPEC selects.
func (b *sessionBuilder) inject(in InjectedSpec) error {
	found, err := candidates(b.view, in.Spec, b.options)
	if err != nil {
		return err
	}
	o, role := b.options, layout.RoleInjected
	if in.Return {
		o.Method = func(*Probe) layout.Method { return layout.MethodKprobe }
		role = layout.RoleInjectedReturn
	}
	var bad error
	added := 0
	for _, c := range found {
		probe, err := newProbeOn(b.view, in.Spec, c.f, c.Hook, o)
		if err != nil {
			bad = errors.Join(bad, err)
			b.skip(c.f, err)
			continue
		}
		probe.injectAs(role)
		added++
		b.probes = append(b.probes, probe)
	}
	if added == 0 {
		return bad
	}
	return nil
}
