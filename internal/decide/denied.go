// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
)

// Denied returns the last decision before the one of a verdict that a function has led to by returning 0, among
// those that asks selects by name: check_kill_permission asks for a capability, and what it tests then are
// exceptions. ok is false if there is none, or if the verdict is on such a decision itself.
func Denied(e *event.Event, path *event.Path, v *Verdict, asks func(function string) bool) (denied Verdict, ok bool) {
	if v.Decision < 0 {
		return denied, false
	}
	p := e.Probe
	walk := p.Way.Code.Walk(p.Way.Graph(), p.Way.Sites(), path.Hits, p.Way.Callees, false)
	for i := v.Decision; i >= 0; i-- {
		d := &path.Decisions[i]
		c := walk.Conditions[d.Hit]
		if c == nil || c.Left.Value == nil || c.Left.Value.Kind != code.Result || c.Relation != code.Equal || !c.Common && !c.Right.Zero() {
			continue
		}
		if f := p.Way.Callees.At(c.Left.Value.Target); f == nil || !asks(f.Name) {
			continue
		}
		if i == v.Decision {
			return denied, false
		}
		denied = Verdict{Error: v.Error, Decision: i}
		denied.condition(p, d, walk, d.Hit)
		return denied, true
	}
	return denied, false
}
