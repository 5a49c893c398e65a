// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Located returns a plan with the addresses of the probes' functions that were not
// known yet, for methods that go by address. One whose name stands for several
// functions, or for none, stays without.
func (p *Plan) Located(view *kernel.View) (*Plan, error) {
	var funcs []kernel.Function
	for _, probe := range p.Probes {
		if probe.Func.Addr == 0 {
			funcs = append(funcs, probe.Func)
		}
	}
	if len(funcs) == 0 {
		return p, nil
	}
	found, err := view.Locate(funcs)
	if err != nil {
		return nil, fmt.Errorf("looking for the addresses of functions: %w", err)
	}
	addrs := make(map[string]uint64, len(found))
	for _, f := range found {
		addr := f.Addr
		if _, twice := addrs[f.String()]; twice {
			addr = 0
		}
		addrs[f.String()] = addr
	}
	out := *p
	out.Probes = slices.Clone(p.Probes)
	for i, probe := range p.Probes {
		if probe.Func.Addr == 0 {
			located := *probe
			located.Func.Addr = addrs[probe.Func.String()]
			out.Probes[i] = &located
		}
	}
	return &out, nil
}
