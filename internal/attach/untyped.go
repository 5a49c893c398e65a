// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/plan"
)

// untypedMethods are those that need no BTF of the kernel's own: what is given in
// its place (kernel.OpenTyped) has ids that mean nothing to the kernel. It finds
// what a trampoline is to call by such an id, and so do kprobe.session programs
// the function that tells the ends of a call apart.
var untypedMethods = map[plan.Method]bool{
	plan.MethodAuto: true, plan.MethodKprobe: true, plan.MethodMulti: true, plan.MethodTracepoint: true, plan.MethodRawTP: true,
}

// NeedsBTF says why a method cannot be had where the kernel's own BTF is not to
// be counted on; nil if it can.
func NeedsBTF(m plan.Method) error {
	if untypedMethods[m] {
		return nil
	}
	return fmt.Errorf("the kernel finds by its own BTF what %s attaches to; types from a file do not tell it. There are kprobe and multi", m)
}

// ChooseUntyped is Choose where the kernel's own BTF is not to be counted on. It
// changes the methods that need it, too: those of calls unless somebody has said
// which to take, and those of tracepoints always.
func ChooseUntyped(p *plan.Plan, calls bool) error { return chooseUntyped(running{}, p, calls) }

func chooseUntyped(h host, p *plan.Plan, calls bool) error {
	many := plan.MethodKprobe
	if len(p.Probes) > fewFunctions && h.has(CapKprobeMulti) == nil {
		many = plan.MethodMulti
	}
	for _, probe := range p.Probes {
		m := probe.Method
		switch {
		case probe.IsCall() && calls:
			m = many
		case m == plan.MethodTPBTF:
			m = plan.MethodRawTP
		}
		if m == probe.Method {
			continue
		}
		if err := probe.SetMethod(m); err != nil {
			return err
		}
	}
	return nil
}
