// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Located returns a plan in which functions have addresses, which some methods need. A
// function stays without one if no symbol or several symbols have its name.
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
