// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// Indents of a table's rows and of the stack of a row.
const (
	tableIndent = "    "
	stackIndent = tableIndent + tableIndent
)

// A tableForm holds everything about printing a table that does not depend on its rows.
type tableForm struct {
	table  *summary.Table
	keys   []field
	value  *field // of the values that are added up; nil for count()
	signed bool
	plain  bool // the values are numbers, without names of their own
	title  string
}

// newTableForm works out the form of a table.
func newTableForm(t *summary.Table, s *style) (*tableForm, error) {
	f := &tableForm{table: t, title: title(t)}
	for i := range t.Key.Slots {
		slot := &t.Key.Slots[i]
		key := newField(&t.Agg.Keys[slot.Capture], s)
		if err := key.add(slot); err != nil {
			return nil, fmt.Errorf("printing %s: %w", t.Agg.Label, err)
		}
		f.keys = append(f.keys, key)
	}
	if t.Agg.Value == nil {
		return f, nil
	}
	of := t.Agg.Value.Type()
	_, f.signed, _ = expr.Number(of)
	value := newField(&expr.Capture{Label: t.Agg.Of, View: t.Agg.View}, s)
	f.value = &value
	if err := value.add(&layout.Slot{Term: t.Agg.Value, Size: 8}); err != nil {
		return nil, fmt.Errorf("printing %s: %w", t.Agg.Label, err)
	}
	number, isInt := btf.UnderlyingType(of).(*btf.Int)
	f.plain = isInt && number.Encoding != btf.Bool && t.Agg.View == expr.ViewDefault
	return f, nil
}

// title returns the selector and the predicates of a table's SPEC, its item and its keys; and the functions, if others
// of the SPEC have another table.
func title(t *summary.Table) string {
	var text []byte
	if t.Spec != "" { // else no SPEC has asked for it
		text = append(appendPredicates(terminal.AppendName(text, t.Probes[0].Spec.Selector.String()), t.Probes[0]), ": "...)
	}
	text = terminal.AppendName(text, t.Agg.Label)
	for i := range t.Agg.Keys {
		separator := ", "
		if i == 0 {
			separator = "["
		}
		text = terminal.AppendName(append(text, separator...), t.Agg.Keys[i].Label)
	}
	if len(t.Agg.Keys) > 0 {
		text = append(text, ']')
	}
	if t.Part {
		text = appendFunctions(append(text, ", of "...), t.Probes)
	}
	return string(text)
}

// appendPredicates appends the predicates of a SPEC, which say which calls are added up.
func appendPredicates(dst []byte, p *plan.Probe) []byte {
	separator := "("
	for i := range p.Items {
		if p.Items[i].Predicate != nil {
			dst = terminal.AppendName(append(dst, separator...), p.ItemText(i))
			separator = ", "
		}
	}
	if separator != "(" {
		dst = append(dst, ')')
	}
	return dst
}

// namedFunctions is how many functions a title names.
const namedFunctions = 3

func appendFunctions(dst []byte, probes []*plan.Probe) []byte {
	for i, p := range probes {
		switch {
		case i == namedFunctions:
			return append(append(append(dst, " and "...), strconv.Itoa(len(probes)-i)...), " more"...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		dst = terminal.AppendName(dst, p.Name)
	}
	return dst
}

// special returns which of the context values a key is that have a meaning of their own in
// keys; ok is false for all other keys.
func (f *field) special() (v expr.ContextVar, ok bool) {
	if f.withheld || f.scalar == nil {
		return 0, false
	}
	if c, isContext := f.scalar.Term.(*expr.ContextTerm); isContext {
		switch c.Var {
		case expr.ContextFunc, expr.ContextStack, expr.ContextUserStack:
			return c.Var, true
		}
	}
	return 0, false
}

// isStack reports whether a key is a stack.
func (f *field) isStack() bool {
	v, ok := f.special()
	return ok && v != expr.ContextFunc
}

// rowEvent returns the record that a row's key is.
func rowEvent(t *summary.Table, r *summary.Row) event.Event {
	return event.Event{Event: bpf.Event{Faults: r.Faults}, Record: t.Key, Data: r.Key}
}

// keyWord returns a key that is a number.
func keyWord(f *field, r *summary.Row) uint64 {
	return binary.LittleEndian.Uint64(r.Key[f.scalar.Off:])
}

// appendNumber appends a value in register form: an error by its name, an enumerator, a pointer,
// and numbers in their units.
func (f *tableForm) appendNumber(dst []byte, x uint64) []byte {
	if _, isErr := f.value.errorOf(x); isErr || !f.plain {
		return f.value.appendScalar(dst, binary.LittleEndian.AppendUint64(nil, x))
	}
	return f.appendSigned(dst, x, func(dst []byte, n uint64) []byte { return appendQuantity(dst, n, f.table.Agg.Unit) })
}

// appendSigned appends a number, given in register form, by what appends its absolute value.
func (f *tableForm) appendSigned(dst []byte, x uint64, absolute func(dst []byte, n uint64) []byte) []byte {
	if f.signed && int64(x) < 0 {
		return absolute(append(dst, '-'), -x)
	}
	return absolute(dst, x)
}

// appendProbeName appends the name of a probe of a plan, and the module if others have functions of that name.
func appendProbeName(dst []byte, p *plan.Plan, number uint64) []byte {
	if number >= uint64(len(p.Probes)) {
		return fmt.Appendf(dst, "probe %d", number) // in a damaged recording
	}
	of := p.Probes[number]
	dst = terminal.AppendName(dst, of.Name)
	shared := func(other *plan.Probe) bool { // a program's name has its file
		return other.Name == of.Name && other.Func.Module != of.Func.Module && other.Hook.File == ""
	}
	if module := of.Func.Module; module != "" && slices.ContainsFunc(p.Probes, shared) {
		dst = append(terminal.AppendName(append(dst, " ["...), module), ']')
	}
	return dst
}
