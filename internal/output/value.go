// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A style says how values are written.
type style struct {
	object, number btfprint.ValueOptions
	indent         string // of every line of a value but the first
	short          bool   // on one line, without types and explanations
	named          bool   // an error in a result is its name alone, also where short has the number
	colour         bool   // errors are marked as such
	names          Names
	printers       Printers
}

// fieldIndent indents the values of a call.
const fieldIndent = "        "

// Indents of a section's title and of its rows.
const (
	sectionIndent = fieldIndent
	rowIndent     = fieldIndent + "    "
)

// callStyle is the style of the calls view.
func callStyle(names Names) *style {
	return &style{indent: fieldIndent, names: names, printers: Printers{},
		object: btfprint.ValueOptions{Indent: "    ", Level: len(fieldIndent) / 4, PointerName: names.Symbol},
		number: btfprint.ValueOptions{ShowZeroes: true, PointerName: names.Symbol}}
}

// lineStyle writes every value on one line of at most width bytes.
func lineStyle(names Names, width int) *style {
	o := btfprint.ValueOptions{Mode: btfprint.Compact, Hide: btfprint.HideTypes, MaxWidth: width, PointerName: names.Symbol}
	s := &style{short: true, names: names, printers: Printers{}, object: o, number: o}
	s.number.ShowZeroes = true
	return s
}

// A value says how to write one captured value, an item of a SPEC or an argument of -A:
// everything that does not depend on its bytes. It has a scalar, a target, or both: a
// pointer and what it points to.
type value struct {
	typ       btf.Type               // type of the scalar or, without one, of the target
	number    *btfprint.Printer      // prints the scalar; nil if there is none
	options   *btfprint.ValueOptions // for number
	object    *btfprint.Printer      // prints the target; nil if there is none or it is text
	text      bool                   // the target is a string, or bytes shown as one
	aggregate bool                   // the target is a struct, union or array
	result    bool                   // the scalar is the function's result
	view      expr.View
	style     *style
}

// setScalar gives v a scalar of type t. An aggregate passed by value counts as one.
func (v *value) setScalar(t btf.Type) (err error) {
	v.typ, v.options = t, &v.style.number
	if isAggregate(t) {
		v.options = &v.style.object
	}
	v.number, err = v.style.printers.Of(t)
	return err
}

// setTarget gives v a target of type t.
func (v *value) setTarget(t btf.Type) (err error) {
	v.aggregate = isAggregate(t)
	if v.typ == nil {
		v.typ = t
	}
	v.object, err = v.style.printers.Of(t)
	return err
}

// setText gives v a target that is shown as text.
func (v *value) setText(t btf.Type) {
	v.text = true
	if v.typ == nil {
		v.typ = t
	}
}

func isAggregate(t btf.Type) bool {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union, *btf.Array:
		return true
	}
	return false
}

// captured holds the bytes of one value.
type captured struct {
	scalar []byte
	target []byte // nil if nothing of it can be shown
	cut    bool   // for text: the captured part is not all
}

// append appends what was captured.
func (v *value) append(dst []byte, c captured) []byte {
	switch {
	case v.number == nil:
	case c.target == nil:
		return v.appendScalar(dst, c.scalar)
	case !v.aggregate && !v.style.short:
		dst = append(v.appendScalar(dst, c.scalar), " = "...)
	case v.aggregate && !v.style.short:
		dst = append(dst, '*')
	case !v.text:
		dst = append(dst, '&')
	}
	return v.appendTarget(dst, c)
}

// isAddress reports whether the target is shown as a network address.
func (v *value) isAddress() bool { return v.view == expr.ViewIP || v.view == expr.ViewMAC }

// appendTarget appends what was captured of a target, in the notation that was asked
// for.
func (v *value) appendTarget(dst []byte, c captured) []byte {
	switch {
	case v.view == expr.ViewMAC:
		return btfprint.AppendMAC(dst, c.target)
	case v.view == expr.ViewIP:
		return appendIP(dst, c.target)
	case v.text:
		return terminal.AppendQuoted(dst, c.target, c.cut)
	}
	return v.object.AppendValue(dst, c.target, &v.style.object)
}

// appendScalar appends a scalar; an error number in a result gets its name.
func (v *value) appendScalar(dst, raw []byte) []byte {
	name, isErr := v.errorOf(word(raw))
	raw = raw[:min(len(raw), v.number.Size())]
	if isErr && v.style.colour {
		dst = terminal.AppendStyle(dst, terminal.Bad)
	}
	_, signed, _ := expr.Number(v.typ)
	bare := v.hasNotation() || signed && !v.style.named // what short has of an error
	switch {
	case isErr && v.style.short && !bare:
		dst = append(append(dst, '-'), name...) // the bare number would not show the error
	case v.hasNotation():
		dst = v.appendNotation(v.appendCast(dst), raw)
	default:
		dst = v.number.AppendValue(dst, raw, v.options)
	}
	if isErr && !v.style.short {
		dst = append(append(append(dst, " /* -"...), name...), " */"...)
	}
	if isErr && v.style.colour {
		dst = terminal.AppendStyle(dst, terminal.Plain)
	}
	return dst
}

// hasNotation reports whether a scalar is not written as its type is.
func (v *value) hasNotation() bool { return v.view != expr.ViewDefault && v.view != expr.ViewDec }

// appendNotation appends the bytes of a scalar in the notation that was asked for.
func (v *value) appendNotation(dst, raw []byte) []byte {
	switch v.view {
	case expr.ViewIP:
		return appendIP(dst, raw)
	case expr.ViewContainer, expr.ViewPod:
		return v.style.names.appendPlace(dst, v.view, word(raw))
	}
	dst = strconv.AppendUint(append(dst, "0x"...), word(raw), 16)
	if v.view == expr.ViewSym && v.style.names.Symbol != nil {
		dst = symname.AppendBehind(dst, word(raw), v.style.names.Symbol)
	}
	return dst
}

// word reads the first 8 bytes in register order, or as many as there are.
func word(raw []byte) uint64 {
	var b [8]byte
	copy(b[:], raw)
	return binary.LittleEndian.Uint64(b[:])
}

// errorOf names the error in a function's result, given in register form. The printer of pointers
// names theirs, but not in another notation. An address of a network is none.
func (v *value) errorOf(n uint64) (name string, ok bool) {
	if !v.result || v.view == expr.ViewIP {
		return "", false
	}
	if _, pointer := btf.UnderlyingType(v.typ).(*btf.Pointer); pointer && !v.hasNotation() {
		return "", false
	}
	name = errno.Name(ResultError(v.typ, n))
	return name, name != ""
}

// appendCast appends the type in parentheses, unless values are short, or are no C.
func (v *value) appendCast(dst []byte) []byte {
	if v.style.short || v.view == expr.ViewContainer || v.view == expr.ViewPod {
		return dst
	}
	return append(btfprint.AppendTypeName(append(dst, '('), v.typ), ')')
}

// appendIP appends an IP address of 4 or 16 bytes.
func appendIP(dst, raw []byte) []byte {
	addr, _ := netip.AddrFromSlice(raw) // the checker admits no other size
	return addr.AppendTo(dst)
}
