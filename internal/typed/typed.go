// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"encoding/binary"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// A Kind says how the 64 bits of a number are to be read.
type Kind uint8

// Kinds of numbers.
const (
	Uint Kind = iota
	Int
	Bool // 0 or 1
	Pointer
)

// A Sink takes values. Names are as SPECs have them: others may have chosen parts of them. A text
// is safe to show, and valid until Text returns.
type Sink interface {
	Number(name string, k Kind, v uint64)
	Text(name string, text []byte)
}

// Values hands out values. It is not for several goroutines.
type Values struct {
	fields *output.Fields
	args   *output.Args
	text   []byte
}

// New returns Values.
func New(names output.Names) *Values {
	return &Values{fields: output.NewFields(names), args: output.NewArgs(names)}
}

// Record hands out the values of a record.
func (v *Values) Record(to Sink, e *event.Event) error {
	fields, err := v.fields.Of(e)
	if err != nil {
		return err
	}
	for _, f := range fields {
		v.field(to, f, e)
	}
	return nil
}

// field hands out a value of a record. A redacted value is a text, too.
func (v *Values) field(to Sink, f output.Field, e *event.Event) {
	scalar, target := f.Slots()
	_, isDiff := f.Later()
	switch {
	case f.Withheld() || isDiff || f.View() != expr.ViewDefault: // in a notation of its own
	case target == nil:
		if x, ok := e.Value(scalar); ok && number(to, f.Label(), scalar.Term.Type(), x) {
			return
		}
	default:
		if _, isText := target.Term.(*expr.Text); !isText {
			break
		}
		if raw, cut := f.Target(e); raw != nil {
			v.text = terminal.AppendName(v.text[:0], raw)
			if cut {
				v.text = append(v.text, "..."...)
			}
			to.Text(f.Label(), v.text)
			return
		}
	}
	v.text = f.Append(v.text[:0], e)
	to.Text(f.Label(), v.text)
}

// Call hands out the values of a call of a session, but not its result. Until it has returned,
// those of its return are not there.
func (v *Values) Call(to Sink, of *session.Values, returned bool) error {
	for i := range of.Args {
		a := &of.Args[i]
		if v, ok := plain(a); ok && number(to, output.ArgName(a, i), a.Param.Type, v) {
			continue
		}
		text, err := v.args.Append(v.text[:0], a)
		if err != nil {
			return err
		}
		v.text = text
		to.Text(output.ArgName(a, i), v.text)
	}
	if of.Event == nil || of.Event.Record == nil {
		return nil
	}
	fields, err := v.fields.Of(of.Event)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Label() == "return" || !returned && f.AtReturn() {
			continue
		}
		v.field(to, f, of.Event)
	}
	return nil
}

// Result hands out the result of a call of a session, unless its function has none.
func (v *Values) Result(to Sink, fn *plan.Probe, word uint64) {
	if fn.Result != nil && !number(to, "return", fn.Result, register(fn, word)) {
		v.text = append(v.text[:0], output.ResultText(fn, word)...)
		to.Text("return", v.text)
	}
}

// plain returns the value of an argument in register form, if it has one and points to nothing that is known.
func plain(a *session.Arg) (v uint64, ok bool) {
	size, signed, ok := expr.Number(a.Param.Type)
	if !ok || a.Withheld || a.Target != nil || size < 1 || size > 8 || len(a.Value) < size {
		return 0, false
	}
	var raw [8]byte
	copy(raw[:], a.Value[:size])
	v = binary.LittleEndian.Uint64(raw[:])
	return extend(v, size, signed), true
}

// number hands out a value in register form if its type is a number, a bool or a pointer.
func number(to Sink, name string, t btf.Type, v uint64) bool {
	kind := Uint
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		kind = Pointer
	case *btf.Int:
		size, signed, ok := expr.Number(t)
		switch {
		case !ok || size > 8:
			return false
		case u.Encoding == btf.Bool:
			kind, v = Bool, min(v&0xff, 1)
		case signed:
			kind = Int
		}
	default:
		return false
	}
	to.Number(name, kind, v)
	return true
}

// register returns the bytes of a return register that belong to the result, in register
// form.
func register(fn *plan.Probe, v uint64) uint64 {
	size, signed, ok := expr.Number(fn.Result)
	if !ok || size <= 0 || size >= 8 {
		return v
	}
	if fn.Class == layout.FailsInt32 {
		signed = true
	}
	return extend(v, size, signed)
}

// extend returns the lowest bytes of a word in register form.
func extend(v uint64, size int, signed bool) uint64 {
	shift := 64 - 8*size
	if signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}
