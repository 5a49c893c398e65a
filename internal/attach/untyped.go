// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// untypedMethods are those that need no BTF of the kernel's own: what is given in
// its place (kernel.OpenTyped) has ids that mean nothing to the kernel. It finds
// what a trampoline is to call by such an id, and so do kprobe.session programs
// the function that tells the ends of a call apart.
var untypedMethods = map[layout.Method]bool{
	layout.MethodAuto: true, layout.MethodKprobe: true, layout.MethodKprobeMulti: true, layout.MethodTracepoint: true, layout.MethodRawTP: true, layout.MethodUprobe: true,
}

// NeedsBTF says why a method cannot be had where the kernel's own BTF is not to
// be counted on; nil if it can.
func NeedsBTF(m layout.Method) error {
	if untypedMethods[m] {
		return nil
	}
	return fmt.Errorf("the kernel finds by its own BTF what %s attaches to; types from a file do not tell it. There are kprobe and multi", m)
}

// ChooseUntyped is Choose where the kernel's own BTF is not to be counted on. It
// changes the methods that need it, too: those of calls unless somebody has said
// which to take, and those of tracepoints always.
func ChooseUntyped(p *plan.Plan, calls bool) (*plan.Plan, error) {
	return chooseUntyped(running{}, p, calls)
}

func chooseUntyped(h host, p *plan.Plan, calls bool) (*plan.Plan, error) {
	many := layout.MethodKprobe
	if manyCalls(p) && h.has(CapKprobeMulti) == nil && (!seesReturns(p.Probes) || h.has(CapKretprobeMulti) == nil) {
		many = layout.MethodKprobeMulti
	}
	return p.With(func(probe *plan.Probe) layout.Method {
		switch {
		case probe.IsCall() && calls:
			return many
		case probe.Method == layout.MethodTPBTF:
			return layout.MethodRawTP
		}
		return probe.Method
	})
}
