// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// warn passes a warning to Options.Warn; err says more.
func (o *Options) warn(what string, err error) {
	if o.Warn != nil {
		o.Warn(fmt.Errorf("%s\n%w", what, err))
	}
}

// warnDoubts warns of what a plan's SPECs hardly mean. If a SPEC selects several functions,
// it only warns of what makes no sense for any of them.
func (o *Options) warnDoubts(p *Plan) {
	doubts := map[*expr.Spec][]*expr.Error{}
	var order []*expr.Spec
	for _, probe := range p.Probes {
		found, seen := doubts[probe.Spec]
		if !seen {
			order, found = append(order, probe.Spec), slices.Clone(probe.doubts)
		}
		doubts[probe.Spec] = slices.DeleteFunc(found, func(d *expr.Error) bool {
			return !slices.ContainsFunc(probe.doubts, func(other *expr.Error) bool { return other.Span == d.Span })
		})
	}
	for _, spec := range order {
		if left := doubts[spec]; len(left) > 0 {
			o.warn("a doubtful SPEC", &expr.ErrorList{Text: spec.Text, Errors: left})
		}
	}
}

// Refusal says why the kernel does not let anyone trace the probe's function. It is nil if
// it does, or if that is unknown.
func (p *Probe) Refusal(view *kernel.View) error {
	if !p.IsCall() || p.InProgram {
		return nil
	}
	a, _ := view.Attachable(p.Func)
	if refused, ok := errors.AsType[*kernel.RefusedError](a.Refusal()); ok {
		return errors.New(refused.Reason())
	}
	return nil
}

// Refused returns faults for those SPECs that name functions which the kernel does not let
// anyone trace, or nil. Of several functions with one name, one that can be traced is
// enough. failed are the probes of a plan to look at. It reads long lists, so call it only
// after something has failed.
func Refused(view *kernel.View, p *Plan, failed []*Probe) error {
	done := map[*expr.Spec]bool{}
	byName := map[*expr.Spec][]*Probe{}
	for _, probe := range p.Probes {
		spec := probe.named()
		byName[spec] = append(byName[spec], probe)
	}
	var errs []error
	for _, f := range failed {
		spec := f.named()
		if spec == nil || done[spec] || !isName(spec.Selector) || f.Hook.Kind != expr.Function || f.InProgram {
			continue
		}
		done[spec] = true
		if slices.ContainsFunc(byName[spec], func(other *Probe) bool { return attachable(view, other) }) {
			continue
		}
		errs = append(errs, &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: spec.Selector.Span,
			Msg: fmt.Sprintf("the kernel does not let %s be traced (notrace)", f.Func), Hint: "functions that call it may be"}}})
	}
	return errors.Join(errs...)
}

// named returns the SPEC that may have asked for a probe by name.
func (p *Probe) named() *expr.Spec {
	if p.Role != layout.RoleCall {
		return p.asked
	}
	return p.Spec
}

func attachable(view *kernel.View, p *Probe) bool {
	a, _ := view.Attachable(p.Func)
	return a.Refusal() == nil
}
