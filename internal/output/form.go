// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// A form is how the records of one layout are printed: everything that does
// not depend on the values, worked out once.
type form struct {
	fields []field
	none   string // what stands for the values, if there can be none
}

// A field is one captured value.
type field struct {
	label string
	typ   btf.Type // of the value
	// value and target are the capture's slots; nil where it has none.
	value, target *layout.Slot
	number        *btfprint.Printer // of the value
	options       *btfprint.ValueOptions
	object        *btfprint.Printer // of the target
	text          bool              // the target is a string
	buffer        bool              // the target is bytes behind their number
	result        bool              // the value is the function's result
	view          expr.View
	later         *layout.Slot // for a diff: the target, or the value, at return
	lines         []byte       // of a diff, reused
	style         *style
}

// A style is how values are written.
type style struct {
	object, number btfprint.ValueOptions
	indent         string // of every line of a value but its first
	short          bool   // on one line, without types and explanations
	// symbol appends the name of what lies at an address, or nothing; it may be
	// nil.
	symbol func(dst []byte, addr uint64) []byte
}

// callStyle is the style of the calls view.
func callStyle(symbol func([]byte, uint64) []byte) *style {
	return &style{indent: fieldIndent, symbol: symbol,
		object: btfprint.ValueOptions{Indent: "    ", Level: len(fieldIndent) / 4, PointerName: symbol},
		number: btfprint.ValueOptions{ShowZeroes: true, PointerName: symbol}}
}

// lineStyle writes every value on one line of at most so many bytes.
func lineStyle(symbol func([]byte, uint64) []byte, width int) *style {
	o := btfprint.ValueOptions{Mode: btfprint.Compact, Hide: btfprint.HideTypes, MaxWidth: width, PointerName: symbol}
	s := &style{short: true, symbol: symbol, object: o, number: o}
	s.number.ShowZeroes = true
	return s
}

func newForm(p *plan.Probe, r *layout.Record, s *style) (*form, error) {
	f := &form{}
	var last *layout.Slot
	for i := range r.Slots {
		slot := &r.Slots[i]
		if slot.Capture < 0 {
			continue
		}
		if slot.Part == layout.PartAfter {
			f.fields[len(f.fields)-1].after(slot)
			continue
		}
		if last == nil || last.Item != slot.Item || last.Capture != slot.Capture {
			c := &p.Items[slot.Item].Captures[slot.Capture]
			f.fields = append(f.fields, field{label: terminal.Name(c.Label), view: c.View, style: s})
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

// noValues is what the original ksnoop prints for a call without arguments and
// for the return of a function that returns nothing.
func noValues(p *plan.Probe, r *layout.Record) string {
	if p.Return != nil && r == p.Return.Record {
		return "return;"
	}
	if proto := p.Signature(); proto != nil && len(proto.Params) == 0 {
		return "void"
	}
	return ""
}

// after notes the last of the slots that have a diff's values at return: the
// target, where there is one.
func (f *field) after(s *layout.Slot) { f.later = s }

func (f *field) add(s *layout.Slot) (err error) {
	switch t := s.Term.(type) {
	case *expr.Text:
		f.target, f.text = s, true
		if f.typ == nil {
			f.typ = t.T
		}
	case *expr.Buffer:
		f.target, f.buffer = s, true
		f.typ = t.T
	case *expr.Object:
		f.target = s
		f.object, err = btfprint.Compile(t.T, binary.LittleEndian)
		if f.typ == nil {
			f.typ = t.T
		}
	default:
		f.value, f.typ, f.options = s, t.Type(), &f.style.number
		if _, context := t.(*expr.ContextTerm); context || f.view == expr.ViewDec {
			decimal := f.style.number // a time, or what was asked for so, is no word of an object
			decimal.HexFrom = 0
			f.options = &decimal
		}
		_, f.result = t.(*expr.Result)
		f.number, err = btfprint.Compile(t.Type(), binary.LittleEndian)
	}
	return err
}

// fieldIndent is what the values of a call are indented by.
const fieldIndent = "        "

func (f *field) append(dst []byte, e *event.Event) []byte {
	return f.appendLabelled(append(dst, f.style.indent...), e)
}

func (f *field) appendLabelled(dst []byte, e *event.Event) []byte {
	dst = append(dst, f.label...)
	if f.later != nil {
		return f.appendDiff(append(dst, ':'), e)
	}
	return f.appendContent(append(dst, " = "...), e)
}

// appendContent appends what was captured, without its label.
func (f *field) appendContent(dst []byte, e *event.Event) []byte {
	if f.value == nil {
		return f.appendTarget(dst, e)
	}
	v, ok := e.Value(f.value)
	if !ok {
		return f.appendUnreadable(append(dst, '?'))
	}
	if f.target == nil || v == 0 {
		return f.appendValue(dst, e, v)
	}
	raw, ok := e.Bytes(f.target)
	if !ok {
		if name, isErr := errorName(v); isErr {
			dst = append(f.appendCast(dst), '-')
			return append(dst, name...)
		}
		dst = append(dst, "0x"...)
		dst = strconv.AppendUint(dst, v, 16)
		return f.appendUnreadable(dst)
	}
	switch {
	case aggregate(f.target) && f.style.short:
		return f.appendObject(append(dst, '&'), raw)
	case aggregate(f.target):
		return f.appendObject(append(dst, '*'), raw)
	case !f.style.short:
		dst = append(f.appendValue(dst, e, v), " = "...)
	case !f.text:
		dst = append(dst, '&')
	}
	if f.text {
		return f.appendText(dst, raw)
	}
	return f.appendObject(dst, raw)
}

// appendDiff appends what has changed between entry and return, each member on
// a line of its own.
func (f *field) appendDiff(dst []byte, e *event.Event) []byte {
	first, printer := f.target, f.object
	if first == nil {
		first, printer = f.value, f.number
	}
	before, okBefore := e.Bytes(first)
	after, okAfter := e.Bytes(f.later)
	switch {
	case !okBefore || !okAfter:
		return f.appendUnreadable(append(dst, " ?"...))
	case f.target != nil && f.object == nil, f.object != nil && f.isAddress():
		was, is := f.appendRaw(nil, before), f.appendRaw(nil, after)
		if bytes.Equal(was, is) {
			return append(dst, " no change"...)
		}
		return append(append(append(append(dst, ' '), was...), " → "...), is...)
	case bytes.Equal(before, after):
		return append(dst, " no change"...)
	}
	size := min(printer.Size(), len(before))
	f.lines = printer.AppendDiff(f.lines[:0], before[:size], after[:size], nil)
	for line := range bytes.Lines(f.lines) {
		if line[0] == '.' { // a member; a number has no line of its own
			dst = f.appendBreak(dst)
		}
		dst = append(dst, ' ')
		dst = append(dst, bytes.TrimSuffix(line, []byte("\n"))...)
	}
	return dst
}

// appendBreak begins the line of another member.
func (f *field) appendBreak(dst []byte) []byte {
	if f.style.short {
		return dst
	}
	return append(append(append(dst, '\n'), f.style.indent...), "   "...)
}

func (f *field) appendTarget(dst []byte, e *event.Event) []byte {
	raw, ok := e.Bytes(f.target)
	if !ok {
		return f.appendUnreadable(append(dst, '?'))
	}
	return f.appendRaw(dst, raw)
}

// isAddress reports whether the target reads as an address of a network.
func (f *field) isAddress() bool { return f.view == expr.ViewIP || f.view == expr.ViewMAC }

// appendRaw appends a target that was read.
func (f *field) appendRaw(dst, raw []byte) []byte {
	switch {
	case f.view == expr.ViewMAC && f.buffer:
		return appendMAC(dst, raw[8:])
	case f.view == expr.ViewMAC:
		return appendMAC(dst, raw)
	case f.view == expr.ViewIP:
		return appendIP(dst, raw)
	case f.buffer:
		raw, cut := bufferBytes(raw)
		return appendQuoted(dst, raw, cut)
	case f.text:
		return f.appendText(dst, raw)
	}
	return f.appendObject(dst, raw)
}

// bufferBytes returns the bytes of a buffer, and whether it had more.
func bufferBytes(raw []byte) (b []byte, cut bool) {
	n, size := binary.LittleEndian.Uint64(raw), uint64(len(raw)-8)
	return raw[8:][:min(n, size)], n > size
}

func aggregate(s *layout.Slot) bool { return isAggregate(s.Term.Type()) }

func isAggregate(t btf.Type) bool {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union, *btf.Array:
		return true
	}
	return false
}

func (f *field) appendObject(dst, raw []byte) []byte {
	return f.object.AppendValue(dst, raw, &f.style.object)
}

// appendValue appends a scalar; a result that is an error number with its name.
func (f *field) appendValue(dst []byte, e *event.Event, v uint64) []byte {
	raw, _ := e.Bytes(f.value)
	raw = raw[:f.number.Size()]
	switch f.view {
	case expr.ViewHex, expr.ViewSym:
		dst = f.appendCast(dst)
		dst = strconv.AppendUint(append(dst, "0x"...), lowBytes(v, len(raw)), 16)
		return f.appendSymbol(dst, v)
	case expr.ViewIP:
		return appendIP(f.appendCast(dst), raw)
	}
	name, isErr := f.errorOf(v)
	if _, signed, _ := expr.Number(f.typ); isErr && f.style.short && !signed {
		return append(append(dst, '-'), name...) // the number alone shows no error
	}
	dst = f.number.AppendValue(dst, raw, f.options)
	if isErr && !f.style.short {
		dst = append(append(append(dst, " /* -"...), name...), " */"...)
	}
	return dst
}

// errorOf names the error that a function's result is.
func (f *field) errorOf(v uint64) (name string, ok bool) {
	if !f.result {
		return "", false
	}
	if _, signed, _ := expr.Number(f.typ); signed {
		return errorName(v)
	}
	if _, pointer := btf.UnderlyingType(f.typ).(*btf.Pointer); pointer {
		return "", false
	}
	return unsignedError(f.typ, v)
}

// lowBytes cuts a number in register form to its type's size.
func lowBytes(v uint64, size int) uint64 { return v << (64 - 8*size) >> (64 - 8*size) }

// appendSymbol appends what lies at an address, for sym().
func (f *field) appendSymbol(dst []byte, addr uint64) []byte {
	if f.view != expr.ViewSym || f.style.symbol == nil {
		return dst
	}
	start := len(dst)
	dst = f.style.symbol(append(dst, " <"...), addr)
	if len(dst) == start+len(" <") {
		return dst[:start]
	}
	return append(dst, '>')
}

// appendIP appends an address of 4 or 16 bytes as people write it.
func appendIP(dst, raw []byte) []byte {
	addr, _ := netip.AddrFromSlice(raw) // the language lets no other size pass
	return addr.AppendTo(dst)
}

// appendMAC appends a hardware address.
func appendMAC(dst, raw []byte) []byte {
	for i, b := range raw {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
	}
	return dst
}

func (f *field) appendCast(dst []byte) []byte {
	if f.style.short {
		return dst
	}
	dst = append(dst, '(')
	dst = btfprint.AppendTypeName(dst, f.typ)
	return append(dst, ')')
}

// appendUnreadable says why a value is not shown.
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

// doubt says what may be wrong with a value that cannot be shown.
func (f *field) doubt() string {
	slot := f.value
	if slot == nil {
		slot = f.target
	}
	if _, pointer := btf.UnderlyingType(f.typ).(*btf.Pointer); pointer {
		return "Userspace/invalid ptr?"
	}
	if expr.Walk(slot.Term, func(t expr.Term) bool { return !divides(t) }) {
		return "Unreadable memory."
	}
	return "Unreadable memory, or a division by zero."
}

// divides reports whether a term is a division that may be one by zero.
func divides(t expr.Term) bool {
	b, ok := t.(*expr.BinaryTerm)
	if !ok || b.Op != expr.OpDiv && b.Op != expr.OpMod {
		return false
	}
	by, constant := b.Y.(*expr.Const)
	return !constant || by.V == 0
}

// appendText appends a string, which ends at its NUL or with its array, as a
// C literal. One behind a pointer was captured with a byte more than is shown.
func (f *field) appendText(dst, raw []byte) []byte {
	s, t := cString(raw), f.target.Term.(*expr.Text)
	most := int(t.Max)
	if t.Terminated() {
		most-- // its NUL
	}
	cut := len(s) > most
	if cut {
		s = s[:most]
	} else if array, ok := btf.UnderlyingType(t.T).(*btf.Array); ok {
		cut = len(s) == most && array.Nelems != t.Max
	}
	return appendQuoted(dst, s, cut)
}

// cString returns the bytes before the first NUL.
func cString(raw []byte) []byte {
	if n := bytes.IndexByte(raw, 0); n >= 0 {
		return raw[:n]
	}
	return raw
}

// appendQuoted appends bytes in quotes, escaped as btfprint does it, and a mark
// if that is not all.
func appendQuoted(dst, raw []byte, cut bool) []byte {
	dst = append(terminal.AppendLiteral(append(dst, '"'), raw), '"')
	if cut {
		dst = append(dst, "..."...)
	}
	return dst
}

// errorName names the error number that v is the negative of, as "ENOENT", if
// it is in the range in which the kernel returns errors.
func errorName(v uint64) (string, bool) {
	name := errno.Name(-v)
	return name, name != ""
}
