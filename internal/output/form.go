// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// A form holds everything about printing records of one layout that does not depend on
// their values.
type form struct {
	fields []field
	none   string // text in place of values, if there can be none
}

// A field is one value that an item captures.
type field struct {
	value
	label string
	// scalar and target are its slots; nil if it has none.
	scalar, target *layout.Slot
	later          *field // for diff(x): x at return
	lines          []byte // lines of a diff; reused
	withheld       bool   // it was not captured; typ is the type that it has
}

// redacted stands for a value that was not captured since the user wants it so.
const redacted = "<redacted>"

// forms caches the forms of the records printed so far, in one style.
type forms struct {
	style *style
	known map[*layout.Record]*form
}

func newForms(s *style) forms { return forms{s, map[*layout.Record]*form{}} }

// of returns the form for an event's record.
func (f *forms) of(e *event.Event) (*form, error) {
	if form, ok := f.known[e.Record]; ok {
		return form, nil
	}
	form, err := newForm(e.Probe, e.Record, f.style)
	if err != nil {
		return nil, fmt.Errorf("printing %s: %w", e.Probe.Func.Name, err)
	}
	f.known[e.Record] = form
	return form, nil
}

// newForm works out the form of a record's layout. Values of one capture become one
// field.
func newForm(p *plan.Probe, r *layout.Record, s *style) (*form, error) {
	f := &form{}
	var last *layout.Slot
	for i := range r.Slots {
		slot := &r.Slots[i]
		if slot.Capture < 0 {
			continue
		}
		if slot.Part == layout.PartAfter {
			if err := f.fields[len(f.fields)-1].after(slot, &p.Items[slot.Item].Captures[slot.Capture]); err != nil {
				return nil, err
			}
			continue
		}
		if last == nil || last.Item != slot.Item || last.Capture != slot.Capture {
			f.fields = append(f.fields, newField(&p.Items[slot.Item].Captures[slot.Capture], s))
		}
		last = slot
		if err := f.fields[len(f.fields)-1].add(slot); err != nil {
			return nil, err
		}
	}
	if len(f.fields) == 0 && p.Everything() {
		f.none = noValues(p, r)
	}
	return f, nil
}

// newField returns the field of a capture, without slots.
func newField(c *expr.Capture, s *style) field {
	return field{label: terminal.Name(c.Label), withheld: c.Withheld != nil, value: value{typ: c.Withheld, view: c.View, style: s}}
}

// noValues returns what the original ksnoop prints for a call without arguments, and for
// the return of a void function.
func noValues(p *plan.Probe, r *layout.Record) string {
	if p.Return != nil && r == p.Return.Record {
		return "return;"
	}
	if proto := p.Signature(); proto != nil && len(proto.Params) == 0 {
		return "void"
	}
	return ""
}

// after gives a diff a slot of its value at return.
func (f *field) after(s *layout.Slot, c *expr.Capture) error {
	if f.withheld {
		return nil
	}
	if f.later == nil {
		later := newField(c.After, f.style)
		f.later = &later
	}
	return f.later.add(s)
}

// add gives the field another slot of its capture.
func (f *field) add(s *layout.Slot) (err error) {
	if f.withheld {
		f.scalar = s
		return nil
	}
	switch t := s.Term.(type) {
	case *expr.Text, *expr.Buffer:
		f.target = s
		f.setText(t.Type())
	case *expr.Object:
		f.target = s
		return f.setTarget(t.T)
	default:
		f.scalar = s
		f.result = expr.IsResult(t)
		err = f.setScalar(t.Type())
		if _, context := t.(*expr.ContextTerm); context || f.view == expr.ViewDec {
			decimal := f.style.number // a time, or what was asked for so, is no word of an object
			decimal.HexFrom = 0
			f.options = &decimal
		}
	}
	return err
}

func (f *field) append(dst []byte, e *event.Event) []byte {
	return f.appendLabelled(append(dst, f.style.indent...), e)
}

// appendLabelled appends "label = value".
func (f *field) appendLabelled(dst []byte, e *event.Event) []byte {
	dst = append(dst, f.label...)
	if f.later != nil {
		return f.appendDiff(append(dst, ':'), e)
	}
	return f.appendContent(append(dst, " = "...), e)
}

// appendContent appends the captured value without its label.
func (f *field) appendContent(dst []byte, e *event.Event) []byte {
	if f.withheld {
		return append(dst, redacted...)
	}
	scalar, ok := bytesOf(e, f.scalar)
	if !ok {
		return f.appendUnreadable(append(dst, '?'))
	}
	pointer := word(scalar)
	if f.target == nil || f.scalar != nil && pointer == 0 {
		return f.appendScalar(dst, scalar)
	}
	raw, ok := bytesOf(e, f.target)
	_, isErr := errorName(pointer)
	switch {
	case ok:
		c := f.content(raw)
		c.scalar = scalar
		return f.value.append(dst, c)
	case f.scalar == nil:
		return f.appendUnreadable(append(dst, '?'))
	case isErr:
		return appendPointer(f.appendCast(dst), pointer)
	}
	return f.appendUnreadable(appendPointer(dst, pointer))
}

// bytesOf returns the bytes of a slot, which may be nil. ok is false if they could not be
// read.
func bytesOf(e *event.Event, s *layout.Slot) (raw []byte, ok bool) {
	if s == nil {
		return nil, true
	}
	return e.Bytes(s)
}

// first returns the slot that the field starts with.
func (f *field) first() *layout.Slot {
	if f.scalar != nil {
		return f.scalar
	}
	return f.target
}

// content returns what to show of a target that was read.
func (f *field) content(raw []byte) (c captured) {
	switch t := f.target.Term.(type) {
	case *expr.Text:
		c.target, c.cut = textOf(t, raw)
	case *expr.Buffer:
		n, size := binary.LittleEndian.Uint64(raw), uint64(len(raw)-8)
		c.target, c.cut = raw[8:][:min(n, size)], n > size
	default:
		c.target = raw
	}
	return c
}

// appendDiff appends what changed between entry and return, one line per member.
func (f *field) appendDiff(dst []byte, e *event.Event) []byte {
	was, okWas := bytesOf(e, f.scalar)
	is, okIs := bytesOf(e, f.later.scalar)
	if !okWas || !okIs {
		return f.appendUnreadable(append(dst, " ?"...))
	}
	if f.target == nil {
		return f.appendNumbers(dst, was, is)
	}
	before, okBefore := e.Bytes(f.target)
	after, okAfter := e.Bytes(f.later.target)
	if f.scalar != nil && word(was) != word(is) {
		return f.appendMoved(dst, [2]side{{word(was), before, okBefore}, {word(is), after, okAfter}})
	}
	switch {
	case okBefore && okAfter:
		return f.appendTargets(dst, before, after)
	case f.scalar != nil && nowhere(word(was)):
		return append(dst, " no change"...)
	}
	return f.appendUnreadable(append(dst, " ?"...))
}

// appendNumbers appends a number before and after.
func (f *field) appendNumbers(dst, was, is []byte) []byte {
	size := min(f.number.Size(), len(was))
	switch {
	case bytes.Equal(was, is):
		return append(dst, " no change"...)
	case f.hasNotation():
		dst = f.appendNotation(append(dst, ' '), was[:size])
		return f.appendNotation(append(dst, " → "...), is[:size])
	}
	f.lines = f.number.AppendDiff(f.lines[:0], was[:size], is[:size], f.options)
	return f.appendLines(dst)
}

// appendTargets appends the differences between two targets that were read.
func (f *field) appendTargets(dst, before, after []byte) []byte {
	if f.object == nil || f.isAddress() {
		was, is := f.appendTarget(nil, f.content(before)), f.appendTarget(nil, f.content(after))
		if bytes.Equal(was, is) {
			return append(dst, " no change"...)
		}
		return append(append(append(append(dst, ' '), was...), " → "...), is...)
	}
	if bytes.Equal(before, after) {
		return append(dst, " no change"...)
	}
	size := min(f.object.Size(), len(before))
	f.lines = f.object.AppendDiff(f.lines[:0], before[:size], after[:size], nil)
	return f.appendLines(dst)
}

// appendLines appends f.lines behind a label.
func (f *field) appendLines(dst []byte) []byte {
	if len(f.lines) == 0 { // another padding of one number
		return append(dst, " no change"...)
	}
	for line := range bytes.Lines(f.lines) {
		if line[0] == '.' { // a member; a number has no line of its own
			dst = f.appendBreak(dst)
		}
		dst = append(dst, ' ')
		dst = append(dst, bytes.TrimSuffix(line, []byte("\n"))...)
	}
	return dst
}

// A side is a pointer at one end of a call, with what it points to, if that was read.
type side struct {
	pointer uint64
	target  []byte
	ok      bool
}

// nowhere reports whether a pointer says by itself that there is nothing to read.
func nowhere(pointer uint64) bool {
	_, isErr := errorName(pointer)
	return pointer == 0 || isErr
}

// appendMoved appends a pointer that is another one at return, and how the targets differ: both
// texts, or the members of which both were read.
func (f *field) appendMoved(dst []byte, sides [2]side) []byte {
	unreadable := false
	for i, s := range sides {
		dst = appendPointer(append(dst, [...]string{" ", " → "}[i]...), s.pointer)
		if f.object == nil && s.ok && s.pointer != 0 {
			dst = f.appendTarget(append(dst, " = "...), f.content(s.target))
		}
		unreadable = unreadable || !s.ok && !nowhere(s.pointer)
	}
	if unreadable {
		return f.appendUnreadable(dst)
	}
	if before, after := sides[0].target, sides[1].target; f.object != nil && sides[0].ok && sides[1].ok && !bytes.Equal(before, after) {
		return f.appendTargets(dst, before, after)
	}
	return dst
}

// appendBreak starts the line of the next member.
func (f *field) appendBreak(dst []byte) []byte {
	if f.style.short {
		return dst
	}
	return append(append(append(dst, '\n'), f.style.indent...), "   "...)
}

// appendUnreadable appends the reason why a value is not shown.
func (f *field) appendUnreadable(dst []byte) []byte {
	if f.style.short {
		return append(dst, " (unreadable)"...)
	}
	dst = append(append(append(dst, '\n'), f.style.indent...), "/* Cannot show '"...)
	dst = append(dst, f.label...)
	dst = append(dst, "' as '"...)
	dst = btfprint.AppendTypeName(dst, f.typ)
	dst = append(append(dst, "'.\n"...), f.style.indent...)
	return append(append(append(dst, " * "...), f.doubt()...), " */"...)
}

// doubt says what may be wrong with a value that could not be read.
func (f *field) doubt() string {
	if _, pointer := btf.UnderlyingType(f.typ).(*btf.Pointer); pointer {
		return "Userspace/invalid ptr?"
	}
	if expr.Walk(f.first().Term, func(t expr.Term) bool { return !divides(t) }) {
		return "Unreadable memory."
	}
	return "Unreadable memory, or a division by zero."
}

// divides reports whether a term contains a division that may be by zero.
func divides(t expr.Term) bool {
	b, ok := t.(*expr.BinaryTerm)
	if !ok || b.Op != expr.OpDiv && b.Op != expr.OpMod {
		return false
	}
	by, constant := b.Y.(*expr.Const)
	return !constant || by.V == 0
}

// textOf returns a string, without its NUL, and whether it was cut. A string behind a
// pointer was captured with one byte more than is shown, but for that in a key: one that fills it may have been
// longer.
func textOf(t *expr.Text, raw []byte) (s []byte, cut bool) {
	s = cString(raw)
	most := int(t.Max)
	if t.Terminated() {
		most-- // its NUL
	}
	if len(s) > most {
		return s[:most], true
	}
	if t.Terminated() && len(s) == most && len(raw) == int(t.Max) {
		return s, true
	}
	array, ok := btf.UnderlyingType(t.T).(*btf.Array)
	return s, ok && len(s) == most && array.Nelems != t.Max
}

// cString returns the bytes before the first NUL.
func cString(raw []byte) []byte {
	if n := bytes.IndexByte(raw, 0); n >= 0 {
		return raw[:n]
	}
	return raw
}
