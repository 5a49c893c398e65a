// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// NewKeys returns Fields that write keys as Summaries does.
func NewKeys(names Names) *Fields {
	s := lineStyle(names, 0)
	s.named = true
	return &Fields{newForms(s)}
}

// Keys returns the keys of a table, and the value that it adds up, which is nil for count().
func (f *Fields) Keys(t *summary.Table) (keys []Field, value *Field, err error) {
	form, err := newTableForm(t, f.forms.style)
	if err != nil {
		return nil, nil, err
	}
	for i := range form.keys {
		keys = append(keys, Field{&form.keys[i]})
	}
	if form.value != nil {
		value = &Field{form.value}
	}
	return keys, value, nil
}

// KeyVar returns which of the values a key is that occur only in keys; ok is false for all others.
func (f Field) KeyVar() (v expr.ContextVar, ok bool) { return f.f.special() }

// KeyEvent returns the record that a row's key is, of which a key is a Field.
func KeyEvent(t *summary.Table, r *summary.Row) *event.Event {
	e := rowEvent(t, r)
	return &e
}

// AppendKey appends a key as text: a string without quotes, and the name of a function.
func (f Field) AppendKey(dst []byte, p *plan.Plan, e *event.Event) []byte {
	if v, ok := f.f.special(); ok && v == expr.ContextFunc {
		return appendProbeName(dst, p, word(e.Data[f.f.scalar.Off:]))
	}
	if raw, _ := f.Target(e); f.f.text && !f.f.withheld && raw != nil {
		return terminal.AppendName(dst, raw)
	}
	return f.f.appendContent(dst, e)
}

// AppendNumber appends a value that is added up, given in register form, as text.
func (f Field) AppendNumber(dst []byte, x uint64) []byte {
	return f.f.appendScalar(dst, binary.LittleEndian.AppendUint64(nil, x))
}
