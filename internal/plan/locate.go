// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Locate fills in the addresses of the probes' functions that are not known
// yet, for methods that go by address. One whose name stands for several
// functions, or for none, stays without.
func (p *Plan) Locate(view *kernel.View) error {
	var funcs []kernel.Function
	for _, probe := range p.Probes {
		if probe.Func.Addr == 0 {
			funcs = append(funcs, probe.Func)
		}
	}
	if len(funcs) == 0 {
		return nil
	}
	found, err := view.Locate(funcs)
	if err != nil {
		return fmt.Errorf("looking for the addresses of functions: %w", err)
	}
	addrs := make(map[string]uint64, len(found))
	for _, f := range found {
		addr := f.Addr
		if _, twice := addrs[f.String()]; twice {
			addr = 0
		}
		addrs[f.String()] = addr
	}
	for _, probe := range p.Probes {
		if probe.Func.Addr == 0 {
			probe.Func.Addr = addrs[probe.Func.String()]
		}
	}
	return nil
}
