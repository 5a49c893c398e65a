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
	if !p.IsCall() {
		return nil
	}
	a, _ := view.Attachable(p.Func)
	if refused, ok := errors.AsType[*kernel.RefusedError](a.Refusal()); ok {
		return errors.New(refused.Reason())
	}
	return nil
}

// Refused returns faults for those SPECs that name functions which the kernel does not let
// anyone trace, or nil. It reads long lists, so call it only after something has failed.
func Refused(view *kernel.View, probes []*Probe) error {
	var errs []error
	told := map[*expr.Spec]bool{}
	for _, p := range probes {
		spec := p.Spec
		if p.Role != layout.RoleCall {
			spec = p.asked
		}
		if spec == nil || told[spec] || !isName(spec.Selector) || p.Hook.Kind != expr.Function {
			continue
		}
		a, _ := view.Attachable(p.Func)
		if a.Refusal() == nil {
			continue
		}
		told[spec] = true
		errs = append(errs, &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: spec.Selector.Span,
			Msg: fmt.Sprintf("the kernel does not let %s be traced (notrace)", p.Func), Hint: "functions that call it may be"}}})
	}
	return errors.Join(errs...)
}
