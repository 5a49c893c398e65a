// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// Fields give the values of records one by one.
type Fields struct{ forms forms }

// NewFields returns Fields that write each value on one line, as long as it is.
func NewFields(names Names) *Fields {
	return &Fields{newForms(lineStyle(names, 0))}
}

// Of returns the values of an event's record, in the order of the SPEC.
func (f *Fields) Of(e *event.Event) ([]Field, error) {
	form, err := f.forms.of(e)
	if err != nil {
		return nil, err
	}
	fields := make([]Field, len(form.fields))
	for i := range fields {
		fields[i] = Field{&form.fields[i]}
	}
	return fields, nil
}

// A Field is one captured value of the records of one layout.
type Field struct{ f *field }

// Label returns what the value is called, as the SPEC has it.
func (f Field) Label() string { return f.f.label }

// Withheld reports whether the value was not captured since the user wants it so.
func (f Field) Withheld() bool { return f.f.withheld }

// Type returns the type of the value itself or, without one, of what it points to.
func (f Field) Type() btf.Type { return f.f.typ }

// Slots returns where a record has the value itself and what it points to; nil where it has
// none.
func (f Field) Slots() (scalar, target *layout.Slot) { return f.f.scalar, f.f.target }

// Later returns the value at return that diff compares with. ok is false for all else.
func (f Field) Later() (later Field, ok bool) { return Field{f.f.later}, f.f.later != nil }

// View returns the notation that was asked for.
func (f Field) View() expr.View { return f.f.view }

// IsResult reports whether the value is the call's result.
func (f Field) IsResult() bool { return f.f.result }

// IsPlainResult reports whether it is just that, and no item of a SPEC gives it another name
// or form.
func (f Field) IsPlainResult() bool { return f.f.isResult() }

// AtReturn reports whether the value is not known before the call returns.
func (f Field) AtReturn() bool { return f.f.moment() == atReturn }

// Reason says why a value could not be read.
func (f Field) Reason() string {
	if expr.Walk(f.f.first().Term, func(t expr.Term) bool { return !divides(t) }) {
		return "unreadable memory"
	}
	return "unreadable memory, or a division by zero"
}

// Content returns what is to be shown of the bytes of the value's target: of a string those
// before its NUL. cut says that more was not captured.
func (f Field) Content(raw []byte) (shown []byte, cut bool) {
	c := f.f.content(raw)
	return c.target, c.cut
}

// Target returns the bytes of what the value points to, of a string those before its NUL, and
// whether only the beginning of them was captured. They are nil if there are none or if they
// could not be read.
func (f Field) Target(e *event.Event) (raw []byte, cut bool) {
	if f.f.target == nil {
		return nil, false
	}
	raw, ok := e.Bytes(f.f.target)
	if !ok {
		return nil, false
	}
	return f.Content(raw)
}

// Append appends the value of an event.
func (f Field) Append(dst []byte, e *event.Event) []byte {
	if f.f.later != nil {
		return f.f.appendDiff(dst, e)
	}
	return f.f.appendContent(dst, e)
}

// Args writes the arguments that -A captures, each on one line.
type Args struct{ printer *valuePrinter }

// NewArgs returns Args.
func NewArgs(names Names) *Args {
	return &Args{newValuePrinter(&SessionOptions{Names: names})}
}

// Append appends an argument's value.
func (a *Args) Append(dst []byte, arg *session.Arg) ([]byte, error) {
	return a.printer.appendArg(dst, arg)
}

// ArgName returns the name of argument i, counted from 0: arg1, arg2, ... if it has none.
func ArgName(arg *session.Arg, i int) string { return string(appendParamName(nil, arg.Param, i)) }
