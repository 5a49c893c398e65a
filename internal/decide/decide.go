// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"strings"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Verdict is what decided a call.
type Verdict struct {
	// Decision is the decision that led to what was returned, by its index in Path.Decisions;
	// -1 if there is none or it is not known.
	Decision int
	// Holds is what held then, with the values: "attr->key_size (3) != 4". Needed is its opposite.
	// They are "" if the condition has no name.
	Holds, Needed string
	// Or are other names for what Holds names: members of a union that are at the same place.
	Or []string
	// Called is the function that returned what was returned; "" if the function itself made
	// it, or that is not known.
	Called string
	// Indirect says that a function returned it that was called through a pointer.
	Indirect bool
	// Value is what was returned as the code has it, if the function made it: "-22".
	Value int64
	Made  bool // Value is known
	// Line is the source's text of the decision; "" if it is not at hand.
	Line string
	// Unsure says that there is a decision, but not which one it is.
	Unsure bool
	// Chosen is the instruction that made the result without a jump; 0 if there is none.
	Chosen uint64
}

// Of returns what decided a call, from its way. ok is false if nothing is known.
func Of(p *plan.Probe, path *event.Path, names Names) (v Verdict, ok bool) {
	v.Decision = -1
	if p.Way == nil || path.Way == nil || path.Missing > 0 || path.Way.Broken > 0 {
		return v, false
	}
	n := namersOf(p, names)
	f := &p.Way.Code
	walk := f.Walk(p.Way.Graph(), p.Way.Sites(), path.Hits, others(names))
	if walk.Returned == nil {
		return v, false
	}
	v.Unsure = walk.Unsure
	switch r := walk.Returned; r.Kind {
	case code.Constant:
		v.Value, v.Made = r.N, true
	case code.Result:
		if name, ok := names.Function(r.Target); ok && r.Target != 0 && !strings.HasPrefix(name, "__x86_indirect_thunk") {
			v.Called = name
		}
		v.Indirect = v.Called == ""
	case code.Chosen, code.Opaque:
		v.Chosen = r.From
		return v, r.From != 0
	}
	if walk.Deciding == code.None || v.Unsure {
		return v, v.Made || v.Called != "" || v.Indirect
	}
	for i := range path.Decisions {
		if path.Decisions[i].Hit == walk.Deciding {
			v.Decision = i
		}
	}
	if v.Decision >= 0 {
		n.condition(&v, &path.Decisions[v.Decision], walk.Conditions[walk.Deciding])
	}
	return v, true
}

// condition writes what a decision was about.
func (n *namers) condition(v *Verdict, d *event.Decision, c *code.Condition) {
	v.Line = n.names.Line(d.Site.Addr)
	if c == nil || c.Relation == code.NoRelation {
		return
	}
	name := namer{namers: n, addr: d.Site.Compare, variables: n.names.Variables(d.Site.Compare), line: v.Line}
	if c.Computed {
		name.variables = nil // the registers are not yet what is compared
	}
	w := writer{n: &name, d: d, c: c}
	v.Holds, v.Needed, v.Or = w.write()
}
