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

// warn tells of something that an error says more of.
func (o *Options) warn(what string, err error) {
	if o.Warn != nil {
		o.Warn(fmt.Errorf("%s\n%w", what, err))
	}
}

// warnDoubts tells what the SPECs of a plan can hardly mean: of a SPEC that
// selects several functions, what it can mean for none of them.
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

// Refusal says why the kernel lets nobody trace the function of a probe; nil if it does, or
// that is not known.
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

// Refused returns, as faults of the SPECs that ask for them by name, which
// functions of a plan the kernel lets nobody trace; nil if there are none or if
// that is not known. It reads long lists: to be asked when something has failed.
func Refused(view *kernel.View, probes []*Probe) error {
	var errs []error
	told := map[*expr.Spec]bool{}
	for _, p := range probes {
		spec := p.Spec
		if p.Role != layout.RoleCall {
			spec = p.asked
		}
		if spec == nil || told[spec] || !isName(spec.Selector) || p.Target.Kind != expr.Function {
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
