// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/output"
)

// values say how values of all types are written.
type values struct {
	options  btfprint.ValueOptions
	symbol   func(dst []byte, addr uint64) []byte // as options.PointerName
	names    output.Names
	printers output.Printers
	name     []byte // of an address; reused
}

func newValues(names output.Names, strings64 bool) values {
	symbol := names.Symbol
	return values{symbol: symbol, names: names, printers: output.Printers{},
		options: btfprint.ValueOptions{ShowZeroes: true, Typed: true, Strings64: strings64, PointerName: symbol}}
}

// A form is how a scalar is written.
type form uint8

const (
	formPrinted   form = iota // by a btfprint.Printer: structs, what has no form of its own
	formEnum                  // {"name":"XDP_PASS","value":2}, by a btfprint.Printer, too
	formNumber                // -7
	formBool                  // true
	formPointer               // {"addr":"0xffff888000000000"}
	formHex                   // "0x1f", as hex() asks for
	formIP                    // "10.0.0.1"
	formContainer             // {"id":"81e5...","name":"web"}
	formPod                   // {"uid":"068e...","name":"web-0","namespace":"prod"}
)

// A scalar says how to write a value that is not behind a pointer. It has the bytes of its
// type, or a register with them in its low part.
type scalar struct {
	form    form
	signed  bool
	typ     btf.Type // nil: it is no value of a call
	quoted  bool     // a 64-bit number as a string
	size    int
	printer *btfprint.Printer // for formPrinted and formEnum
}

// scalar returns how values of a type are written.
func (v *values) scalar(t btf.Type, view expr.View) (s scalar, err error) {
	s.size, s.signed, _ = expr.Number(t)
	s.typ = t
	switch view {
	case expr.ViewHex:
		s.form = formHex
	case expr.ViewSym:
		s.form = formPointer
	case expr.ViewIP:
		s.form = formIP
	case expr.ViewContainer:
		s.form = formContainer
	case expr.ViewPod:
		s.form = formPod
	}
	if s.form != formPrinted {
		if s.size == 0 {
			s.size, err = btf.Sizeof(t)
		}
		return s, err
	}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		s.form, s.size = formPointer, 8
		return s, nil
	case *btf.Enum:
		s.form = formEnum
	case *btf.Int:
		if u.Encoding == btf.Bool && u.Size <= 8 {
			s.form, s.size = formBool, int(u.Size)
			return s, nil
		}
		if s.size == 1 || s.size == 2 || s.size == 4 || s.size == 8 {
			s.form, s.quoted = formNumber, s.size == 8 && v.options.Strings64
			return s, nil
		}
	}
	if s.printer, err = v.printers.Of(t); err == nil {
		s.size = s.printer.Size()
	}
	return s, err
}

// number returns the bytes of a register that belong to the scalar, extended by its sign.
func (s *scalar) number(raw []byte) uint64 {
	var b [8]byte
	copy(b[:], raw[:min(len(raw), s.size)])
	n := binary.LittleEndian.Uint64(b[:])
	if shift := 64 - 8*min(s.size, 8); s.signed {
		return uint64(int64(n<<shift) >> shift)
	}
	return n
}

// appendScalar appends a scalar.
func (v *values) appendScalar(dst []byte, s *scalar, raw []byte) []byte {
	switch s.form {
	case formNumber:
		return s.appendNumber(dst, s.number(raw))
	case formBool:
		return strconv.AppendBool(dst, s.number(raw) != 0)
	case formPointer:
		return append(v.openPointer(dst, s.number(raw), true), '}')
	case formHex:
		return appendAddress(dst, s.number(raw)&(1<<(8*s.size)-1))
	case formIP:
		return appendIP(dst, raw[:min(len(raw), s.size)])
	case formContainer, formPod:
		return v.appendPlace(dst, s.form, s.number(raw))
	}
	return s.printer.AppendJSON(dst, raw[:min(len(raw), s.size)], &v.options)
}

func (s *scalar) appendNumber(dst []byte, n uint64) []byte {
	if s.quoted {
		dst = append(dst, '"')
	}
	if s.signed {
		dst = strconv.AppendInt(dst, int64(n), 10)
	} else {
		dst = strconv.AppendUint(dst, n, 10)
	}
	if s.quoted {
		dst = append(dst, '"')
	}
	return dst
}

// openPointer begins the object of a pointer: its address, and the name of what is there. An
// error is a name if it is not to be a member of its own.
func (v *values) openPointer(dst []byte, addr uint64, errors bool) []byte {
	dst = appendAddress(append(dst, `{"addr":`...), addr)
	if addr == 0 {
		return dst
	}
	if name := errno.Name(-addr); name != "" {
		if !errors {
			return dst
		}
		return append(append(append(dst, `,"name":"-`...), name...), '"')
	}
	if v.symbol == nil {
		return dst
	}
	if v.name = v.symbol(v.name[:0], addr); len(v.name) > 0 {
		dst = appendText(dst, "name", v.name)
	}
	return dst
}

// appendPlace appends the container or the pod of a cgroup; null if it is in none, and the cgroup's ID if nothing is
// known of it.
func (v *values) appendPlace(dst []byte, as form, id uint64) []byte {
	var g container.Group
	if v.names.Cgroup != nil {
		g = v.names.Cgroup(id)
	}
	in := container.Of(g.Path)
	var members [][2]string
	switch {
	case g.Path == "":
		return append(appendUint(append(dst, '{'), "cgroup", id), '}')
	case as == formContainer && in.Container != "":
		members = [][2]string{{"id", in.Container}, {"name", g.Container}}
	case as == formPod && in.Pod != "":
		members = [][2]string{{"uid", in.Pod}, {"name", g.Pod}, {"namespace", g.Namespace}}
	default:
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for _, m := range members {
		if m[1] != "" {
			dst = appendText(dst, m[0], m[1])
		}
	}
	return append(dst, '}')
}

// appendIP appends an IP address of 4 or 16 bytes.
func appendIP(dst, raw []byte) []byte {
	addr, ok := netip.AddrFromSlice(raw)
	if !ok { // the checker admits no other size
		return append(dst, "null"...)
	}
	return append(addr.AppendTo(append(dst, '"')), '"')
}

// appendResult appends what a function has returned: an object, with the error that the
// result may be.
func (v *values) appendResult(dst []byte, s *scalar, raw []byte) []byte {
	n := s.number(raw)
	switch s.form {
	case formPointer:
		dst = v.openPointer(dst, n, false)
	case formEnum:
		dst = bytes.TrimSuffix(v.appendScalar(dst, s, raw), []byte("}"))
	default:
		dst = v.appendScalar(append(dst, `{"value":`...), s, raw)
	}
	if name := s.errorOf(n); name != "" {
		dst = appendText(dst, "error", name)
	}
	return append(dst, '}')
}

// errorOf returns the error in a result: its name, its number if it has none, "" if there is
// no error.
func (s *scalar) errorOf(n uint64) string {
	if s.form == formIP {
		return ""
	}
	number := output.ResultError(s.typ, n)
	if number == 0 {
		return ""
	}
	if name := errno.Name(number); name != "" {
		return name
	}
	return strconv.FormatUint(number, 10)
}
