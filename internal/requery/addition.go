// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// An addition is an aggregation in terms of what was recorded.
type addition struct {
	agg   *expr.Aggregation
	item  int
	value expr.Term // nil for count()
	key   *layout.Record
	fills []fill
}

// newAddition rewrites an aggregation. ok is false if it does not follow from what was recorded.
func (r *recording) newAddition(g *expr.Aggregation, item int) (a addition, ok bool) {
	a = addition{agg: g, item: item, key: layout.KeyOf(g)}
	ok = true
	if g.Value != nil {
		a.value, ok = r.rewrite(g.Value)
	}
	for _, slot := range a.key.Slots {
		f := fill{slot: slot}
		if how, special := keyVars[variable(slot.Term)]; special {
			f.how = how
		} else {
			var known bool
			slot.Size = layout.KeyBytes(&slot)
			f, known = r.newFill(slot, slot.Term)
			ok = ok && known
		}
		a.fills = append(a.fills, f)
	}
	return a, ok
}

// keyVars are the context values that occur only in keys.
var keyVars = map[expr.ContextVar]how{expr.ContextFunc: byFunc, expr.ContextStack: byStack, expr.ContextUserStack: byUserStack}

// variable returns which context value a term is; $pid for what is none.
func variable(t expr.Term) expr.ContextVar {
	if c, ok := t.(*expr.ContextTerm); ok {
		return c.Var
	}
	return expr.ContextPID
}
