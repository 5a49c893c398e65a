// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"github.com/cilium/ebpf/btf"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// number adds an annotation with a number in one of the fields for numbers.
func (p *Printer) number(name string, field protowire.Number, v uint64) {
	id := p.tables.name(internedAnnotations, name)
	body, start := begin(p.body, eventAnnotations)
	p.body = end(appendUint(appendUint(body, annotationName, id), field, v), start)
}

func (p *Printer) uint(name string, v uint64) { p.number(name, annotationUint, v) }

// string adds an annotation with a text that is safe to show.
func (p *Printer) string(name, text string) {
	p.text = append(p.text[:0], text...)
	p.textual(name)
}

// textual adds an annotation with the text in p.text.
func (p *Printer) textual(name string) {
	id := p.tables.name(internedAnnotations, name)
	body, start := begin(p.body, eventAnnotations)
	p.body = end(appendString(appendUint(body, annotationName, id), annotationString, p.text), start)
}

// owner adds whose call it was, as far as that was recorded.
func (p *Printer) owner(o bpf.Owner) {
	if p.run.Plan.Owner&layout.OwnerUID != 0 {
		p.uint("uid", uint64(o.UID))
	}
	if p.run.Plan.Owner&layout.OwnerCgroup == 0 || o.Cgroup == 0 {
		return
	}
	if p.run.Cgroup != nil {
		if path := p.run.Cgroup(o.Cgroup); path != "" {
			p.text = terminal.AppendName(p.text[:0], path)
			p.textual("cgroup")
			return
		}
	}
	p.uint("cgroup", o.Cgroup)
}

// typed adds an annotation with a value in register form if its type is a number, a bool or
// a pointer.
func (p *Printer) typed(name string, t btf.Type, v uint64) bool {
	field := protowire.Number(annotationUint)
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		field = annotationPointer
	case *btf.Int:
		size, signed, ok := expr.Number(t)
		switch {
		case !ok || size > 8:
			return false
		case u.Encoding == btf.Bool:
			field, v = annotationBool, min(v&0xff, 1)
		case signed:
			field = annotationInt
		}
	default:
		return false
	}
	p.number(name, field, v)
	return true
}

// fields adds the values of a record.
func (p *Printer) fields(e *event.Event) error {
	fields, err := p.values.Of(e)
	if err != nil {
		return err
	}
	for _, f := range fields {
		p.field(f, e)
	}
	return nil
}

// field adds a value of a record: a number, bool or pointer as such, a string as its
// characters, anything else as ksnoop writes it on one line. A redacted value is a text, too.
func (p *Printer) field(f output.Field, e *event.Event) {
	scalar, target := f.Slots()
	switch {
	case f.Withheld() || f.Later() != nil || f.View() != expr.ViewDefault: // in a notation of its own
	case target == nil:
		if v, ok := e.Value(scalar); ok && p.typed(f.Label(), scalar.Term.Type(), v) {
			return
		}
	default:
		if _, isText := target.Term.(*expr.Text); !isText {
			break
		}
		if raw, cut := f.Target(e); raw != nil {
			p.text = terminal.AppendName(p.text[:0], raw)
			if cut {
				p.text = append(p.text, "..."...)
			}
			p.textual(f.Label())
			return
		}
	}
	p.text = f.Append(p.text[:0], e)
	p.textual(f.Label())
}

// known adds the values of a call of a session. Until it has returned, those of its return
// are not there.
func (p *Printer) known(v *session.Values, returned bool) error {
	for i := range v.Args {
		a := &v.Args[i]
		text, err := p.args.Append(p.text[:0], a)
		if err != nil {
			return err
		}
		p.text = text
		p.textual(output.ArgName(a, i))
	}
	if v.Event == nil || v.Event.Record == nil {
		return nil
	}
	fields, err := p.values.Of(v.Event)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Label() == "return" || !returned && f.AtReturn() {
			continue
		}
		p.field(f, v.Event)
	}
	return nil
}

// result adds the result of a call of a session, and the error that it stands for.
func (p *Printer) result(fn *plan.Probe, v uint64, errno string) {
	if fn.Result == nil {
		return
	}
	if !p.typed("return", fn.Result, register(fn, v)) {
		p.string("return", output.ResultText(fn, v))
	}
	if errno != "" {
		p.string("errno", errno)
	}
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
	shift := 64 - 8*size
	if signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}
