// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Table is what one item of a SPEC adds up. The functions that the SPEC selects share it,
// unless the item has other types in one than in another: such functions have a table each.
type Table struct {
	Agg *expr.Aggregation // of the first probe; that of others differs in its terms
	// Spec is the text of the SPEC.
	Spec string
	// Key says where the keys lie in the bytes of a row's key.
	Key    *layout.Record
	Probes []*plan.Probe // whose calls it adds up
	// Part says that the item has another table for other functions.
	Part bool
}

// Tables are those of a plan, in the order of its SPECs and items.
type Tables struct {
	List []*Table
	of   map[place]int
}

// A place is an item of a probe.
type place struct{ probe, item int }

// Of returns the tables of a plan. A plan without aggregations has none.
func Of(p *plan.Plan) *Tables {
	t := &Tables{of: map[place]int{}}
	type form struct {
		spec  *expr.Spec
		item  int
		shape string
	}
	type item struct {
		spec *expr.Spec
		item int
	}
	known, first := map[form]int{}, map[item]*Table{}
	for i, probe := range p.Probes {
		for j := range probe.Items {
			g := probe.Items[j].Aggregation
			if g == nil {
				continue
			}
			f := form{probe.Spec, j, shape(g)}
			n, ok := known[f]
			if !ok {
				n = len(t.List)
				known[f] = n
				table := &Table{Agg: g, Spec: probe.Spec.Text, Key: layout.KeyOf(g)}
				t.List = append(t.List, table)
				if other := first[item{f.spec, j}]; other != nil {
					other.Part, table.Part = true, true
				} else {
					first[item{f.spec, j}] = table
				}
			}
			t.List[n].Probes = append(t.List[n].Probes, probe)
			t.of[place{i, j}] = n
		}
	}
	return t
}

// Index returns which of the tables an item of a probe fills, both given by their numbers; -1
// if it fills none.
func (t *Tables) Index(probe, item int) int {
	if n, ok := t.of[place{probe, item}]; ok {
		return n
	}
	return -1
}

// HaveStacks reports whether some key is a stack.
func (t *Tables) HaveStacks() bool {
	return slices.ContainsFunc(t.List, func(table *Table) bool {
		return slices.ContainsFunc(table.Agg.Keys, func(k expr.Capture) bool {
			c, ok := k.Value.(*expr.ContextTerm)
			return ok && (c.Var == expr.ContextStack || c.Var == expr.ContextUserStack)
		})
	})
}

// shape tells aggregations apart whose rows cannot be in one table. Types are compared by their
// names and contents, since a module and a file of a program have types of their own.
func shape(g *expr.Aggregation) string {
	text := fmt.Appendf(nil, "%d", g.Words())
	add := func(t expr.Term, view expr.View) {
		if t != nil {
			text = btfprint.AppendTypeName(fmt.Appendf(text, ";%d ", view), t.Type())
			text = appendContent(append(text, ' '), t.Type(), 0)
		}
		text = append(text, ';')
	}
	add(g.Value, expr.ViewDefault)
	for i := range g.Keys {
		k := &g.Keys[i]
		add(k.Value, k.View)
		add(k.Target, k.View)
	}
	return string(text)
}

// Of what is longer, or nested more deeply, the rest is not looked at. A recording may have a union of 4 bytes with 2^32 members in all.
const (
	mostNested = 32
	mostText   = 64 << 10 // bytes
)

// appendContent appends what values of a type are shown by, and ordered: two files of a program, or two modules, may each have a typedef num
// or an enum state of their own.
func appendContent(dst []byte, t btf.Type, depth int) []byte {
	if depth > mostNested || len(dst) > mostText {
		return dst
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return fmt.Appendf(dst, "%s %d %d", t.Name, t.Size, t.Encoding)
	case *btf.Enum:
		dst = fmt.Appendf(dst, "enum %d %v", t.Size, t.Signed)
		for _, v := range t.Values {
			dst = fmt.Appendf(dst, " %q=%d", v.Name, v.Value)
		}
		return dst
	case *btf.Pointer:
		return btfprint.AppendTypeName(append(dst, "* "...), t.Target)
	case *btf.Array:
		return appendContent(fmt.Appendf(dst, "[%d]", t.Nelems), t.Type, depth+1)
	case *btf.Struct:
		return appendMembers(fmt.Appendf(dst, "struct %d{", t.Size), t.Members, depth)
	case *btf.Union:
		return appendMembers(fmt.Appendf(dst, "union %d{", t.Size), t.Members, depth)
	default:
		size, err := btf.Sizeof(t)
		return fmt.Appendf(dst, "%T %d %v", t, size, err)
	}
}

func appendMembers(dst []byte, members []btf.Member, depth int) []byte {
	for i := range members {
		if len(dst) > mostText {
			break
		}
		m := &members[i]
		dst = fmt.Appendf(dst, "%s %d %d ", m.Name, m.Offset, m.BitfieldSize)
		dst = append(appendContent(dst, m.Type, depth+1), ';')
	}
	return append(dst, '}')
}
