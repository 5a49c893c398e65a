// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// fewFunctions is up to how many functions are hooked each by a trampoline of
// its own. That is the cheapest for the traced system, but every program is
// verified by itself, and both to attach and to detach one waits for the
// kernel.
const fewFunctions = 16

// Choose decides how the probes of a plan are attached where nobody has said
// so: a few stay as plan has them, more are given the method that hooks many
// functions at once.
func Choose(p *plan.Plan) error {
	if len(p.Probes) <= fewFunctions {
		return nil
	}
	m := plan.MethodKprobe
	switch {
	case CapKprobeSession.Probe() == nil:
		m = plan.MethodSession
	case CapKprobeMulti.Probe() == nil:
		m = plan.MethodMulti
	}
	for _, probe := range p.Probes {
		if !probe.IsCall() {
			continue
		}
		if err := probe.SetMethod(m); err != nil {
			return err
		}
	}
	return nil
}

// Supported says why a kernel cannot attach with a method that was asked for
// and takes a newer one; nil if it can or if that is for the attempt to show.
func Supported(m plan.Method) error {
	needs, ok := map[plan.Method]Capability{
		plan.MethodMulti:   CapKprobeMulti,
		plan.MethodSession: CapKprobeSession,
	}[m]
	if !ok {
		return nil
	}
	if err := needs.Probe(); errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	return nil
}

// locate looks up the addresses of functions, if some probe is attached by
// address.
func locate(p *plan.Plan, view *kernel.View) error {
	for _, probe := range p.Probes {
		if probe.Method == plan.MethodMulti || probe.Method == plan.MethodSession ||
			probe.Method == plan.MethodKprobe && probe.IsCall() && len(p.Probes) >= manyKprobes {
			return p.Locate(view)
		}
	}
	return nil
}
