// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// leastRoom is how many columns values get on a terminal that other columns fill.
const leastRoom = 40

// leastLine is how many columns a line of a call gets at least: what stands before the name
// of its function takes 47.
const leastLine = 80

// mostDecimalArg is one more than the largest integer that retsnoop shows in decimal.
const mostDecimalArg = 4 << 20

// A valuePrinter prints captured values of calls in sessions.
type valuePrinter struct {
	layout  ArgsForm
	width   int        // of a value, in columns; 0 means no limit
	columns func() int // width of the terminal; nil or 0 means none
	forms   forms
	args    map[*layout.Param]*value
}

func newValuePrinter(o *SessionOptions) *valuePrinter {
	s := lineStyle(o.Names, o.ArgsWidth)
	if o.Args == ArgsVerbose {
		s = callStyle(o.Names)
		s.indent, s.object.Level = "  ", 0
	}
	for _, v := range []*btfprint.ValueOptions{&s.object, &s.number} {
		v.Tight, v.Once, v.HexFrom = true, true, mostDecimalArg
	}
	return &valuePrinter{layout: o.Args, width: o.ArgsWidth, columns: o.Columns, forms: newForms(s), args: map[*layout.Param]*value{}}
}

// room returns how many columns remain for values after others; 0 means no limit.
func (p *valuePrinter) room(behind int) int {
	if p.columns == nil {
		return 0
	}
	n := p.columns()
	if n == 0 {
		return 0
	}
	return max(n-behind, leastRoom)
}

// append appends the values of a call. The compact form writes "a=1 b=2" for arguments and
// "p->a = 1, p->b = 2" for items; the other forms write "› a = 1" on lines of their own.
func (p *valuePrinter) append(dst []byte, v *session.Values, moment moment) ([]byte, error) {
	compact := p.layout == ArgsCompact
	for i := range v.Args {
		a, equals := &v.Args[i], " = "
		if compact {
			equals = "="
		}
		dst = append(appendParamName(p.begin(dst, " "), a.Param, i), equals...)
		start := len(dst)
		var err error
		if dst, err = p.appendArg(dst, a); err != nil {
			return dst, err
		}
		dst = p.end(cutLines(dst, start, p.width))
	}
	if v.Event == nil || v.Event.Record == nil {
		return dst, nil
	}
	f, err := p.forms.of(v.Event)
	if err != nil {
		return dst, err
	}
	separator := " "
	for i := range f.fields {
		if field := &f.fields[i]; !(field.isResult() && v.Event.Kind == bpf.KindCall) && moment&field.moment() != 0 {
			dst = p.begin(dst, separator)
			value := len(dst) + len(field.label)
			dst = p.end(cutLines(field.appendLabelled(dst, v.Event), value, p.width))
			separator = ", "
		}
	}
	return dst, nil
}

// appendBelow appends the lines with a call's values, indented by blanks.
func (p *valuePrinter) appendBelow(dst, text []byte, blanks int) []byte {
	room := p.room(blanks)
	for line := range bytes.Lines(text) {
		if len(line) > 1 {
			dst = appendBlanks(dst, blanks)
		}
		start := len(dst)
		dst = cutLines(append(dst, line...), start, room)
	}
	return dst
}

// appendParamName appends the name of parameter i, counted from 0: arg1, arg2, ... if it
// has none.
func appendParamName(dst []byte, p *layout.Param, i int) []byte {
	if p.Name == "" {
		return strconv.AppendInt(append(dst, "arg"...), int64(i+1), 10)
	}
	return terminal.AppendName(dst, p.Name)
}

// A moment is an end of a call, or both ends.
type moment uint8

const (
	atEntry moment = 1 << iota
	atReturn
	wholeCall = atEntry | atReturn
)

// moment returns when the value of a field is known.
func (f *field) moment() moment {
	if f.later != nil || expr.PhaseOf(f.first().Term) == expr.AtReturn {
		return atReturn
	}
	return atEntry
}

// isResult reports whether a field is just the call's result, which has a column of its
// own.
func (f *field) isResult() bool { return f.result && f.label == "return" && f.target == nil }

// begin begins another value.
func (p *valuePrinter) begin(dst []byte, separator string) []byte {
	switch {
	case p.layout != ArgsCompact:
		return append(dst, "› "...)
	case len(dst) > 0:
		return append(dst, separator...)
	}
	return dst
}

func (p *valuePrinter) end(dst []byte) []byte {
	if p.layout == ArgsCompact {
		return dst
	}
	return append(dst, '\n')
}

// appendArg appends one argument of -A.
func (p *valuePrinter) appendArg(dst []byte, a *session.Arg) ([]byte, error) {
	switch {
	case a.Withheld:
		return append(dst, redacted...), nil
	case a.Beyond:
		return append(dst, "? (beyond what -A captures)"...), nil
	case a.Value == nil && a.Unavailable() != "":
		return append(append(append(dst, "? ("...), a.Unavailable()...), ')'), nil
	case a.Value == nil:
		return append(dst, "? (unreadable)"...), nil
	}
	v, err := p.arg(a)
	if err != nil {
		return dst, err
	}
	return v.append(dst, captured{a.Value, a.Target, a.Cut}), nil
}

// arg returns how to write an argument. The first one whose target could be read determines
// the target's form.
func (p *valuePrinter) arg(a *session.Arg) (v *value, err error) {
	if v = p.args[a.Param]; v == nil {
		v = &value{style: p.forms.style}
		if err := v.setScalar(a.Param.Type); err != nil {
			return nil, err
		}
		p.args[a.Param] = v
	}
	switch {
	case a.Target == nil:
	case a.Text:
		v.setText(a.TargetType)
	case v.object == nil:
		err = v.setTarget(a.TargetType)
	}
	return v, err
}
