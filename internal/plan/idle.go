// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// idleShown is how many denials that left nothing out are named.
const idleShown = 3

// checkIdle warns of denials that left nothing out. If all are such, and none matches a function
// of the kernel, that is a fault: -d was mistyped, or is no -d at all, as in -dry-run.
func (d *denials) checkIdle(view *kernel.View, o Options) error {
	var idle []*denial
	asked := 0
	for _, one := range d.all {
		if one.optional {
			continue
		}
		if asked++; !one.applied {
			idle = append(idle, one)
		}
	}
	if asked == 0 {
		return nil
	}
	if len(idle) == asked && !slices.ContainsFunc(idle, func(one *denial) bool { return one.matches(view, o) }) {
		return idle[0].fault(view)
	}
	for i, one := range idle {
		if left := len(idle) - i; i == idleShown && left > 1 { // a file may name thousands
			o.warn(fmt.Sprintf("%d more SELECTORs leave nothing out", left), fmt.Errorf("  -d: they match no function that is selected"))
			break
		}
		o.warn("nothing is left out by one SELECTOR", fmt.Errorf("  -d %s: it matches no function that is selected", one.selector))
	}
	return nil
}

// matches reports whether the kernel has a function that a denial may be meant for. One of a
// module may wait for that to be loaded.
func (d *denial) matches(view *kernel.View, o Options) bool {
	if d.selector.Kind != expr.Function || d.selector.Module != "" {
		return true
	}
	found, err := named(view, d.selector, o)
	return err != nil || len(found) > 0
}

// fault says that a denial matches no function of the kernel.
func (d *denial) fault(view *kernel.View) error {
	text, hint := d.selector.String(), ""
	if d.selector.Path == "" {
		hint = view.Missing(d.selector.Name, "").Hint()
	}
	return &expr.ErrorList{Text: text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: expr.Span{End: len(text)},
		Msg: fmt.Sprintf("nothing to leave out: no function matches %q", text), Hint: hint}}}
}
