// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"math"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/longdouble"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// load reads an integer of up to 8 bytes in the printer's byte order.
func (p *Printer) load(raw []byte) uint64 {
	var v uint64
	if p.little {
		for i := len(raw) - 1; i >= 0; i-- {
			v = v<<8 | uint64(raw[i])
		}
		return v
	}
	for _, c := range raw {
		v = v<<8 | uint64(c)
	}
	return v
}

// signExtend sign-extends the low bits of v.
func signExtend(v uint64, bits int) int64 {
	shift := 64 - bits
	return int64(v<<shift) >> shift
}

// bitfield reads bitfield f of the type that starts at off-f.off. BTF counts bits from the
// least significant one on little-endian machines, and from the most significant one on
// big-endian machines. A bitfield of 64 bits may span 9 bytes.
func (p *Printer) bitfield(f *field, raw []byte, off int) uint64 {
	bit, width := int(f.bit), int(f.bits)
	raw = raw[off : off+(bit+width+7)/8]
	var v uint64
	switch {
	case len(raw) > 8 && p.little:
		v = p.load(raw[:8])>>bit | uint64(raw[8])<<(64-bit)
	case len(raw) > 8:
		spare := 72 - bit - width
		v = p.load(raw[:8])<<(8-spare) | uint64(raw[8])>>spare
	case p.little:
		v = p.load(raw) >> bit
	default:
		v = p.load(raw) >> (len(raw)*8 - bit - width)
	}
	return v & (math.MaxUint64 >> (64 - width))
}

// number reads an integer, an enum or a bitfield, and extends its sign.
func (p *Printer) number(f *field, b *body, raw []byte, off int) uint64 {
	bits := int(b.size) * 8
	var v uint64
	if f.bits > 0 {
		bits = int(f.bits)
		v = p.bitfield(f, raw, off)
	} else {
		v = p.load(raw[off : off+int(b.size)])
	}
	if b.signed {
		return uint64(signExtend(v, bits))
	}
	return v
}

// scalar writes a value without parts.
func (w *valueWriter) scalar(f *field, b *body, off int) {
	switch b.kind {
	case kindInt:
		w.integer(f, b, off)
	case kindEnum:
		w.enum(f, b, off)
	case kindPointer:
		w.pointer(b, off)
	case kindFloat:
		w.dst = w.p.appendFloat(w.dst, w.raw[off:off+int(b.size)], w.o.Plain)
	case kindLongDouble:
		w.dst = longdouble.Format(b.n).Append(w.dst, w.raw[off:])
	case kindWide:
		w.dst = w.p.appendWide(w.dst, w.raw[off:off+int(b.size)])
	}
}

func (w *valueWriter) integer(f *field, b *body, off int) {
	switch n := w.p.number(f, b, w.raw, off); {
	case w.o.HexFrom > 0 && n >= w.o.HexFrom && !(b.signed && int64(n) < 0):
		w.dst = strconv.AppendUint(append(w.dst, "0x"...), n, 16)
	case f.bits > 0 && w.o.HexFrom == 0 && (w.o.Plain || !b.signed):
		w.dst = append(w.dst, "0x"...)
		w.dst = strconv.AppendUint(w.dst, w.p.bitfield(f, w.raw, off), 16)
	case b.signed:
		w.dst = strconv.AppendInt(w.dst, int64(n), 10)
	default:
		w.dst = strconv.AppendUint(w.dst, n, 10)
	}
}

// appendWide appends an integer of any length in hexadecimal.
func (p *Printer) appendWide(dst, raw []byte) []byte {
	dst = append(dst, "0x"...)
	start := len(dst)
	for i := range raw {
		c := raw[i]
		if p.little {
			c = raw[len(raw)-1-i]
		}
		switch {
		case len(dst) > start:
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		case c != 0:
			dst = strconv.AppendUint(dst, uint64(c), 16)
		}
	}
	if len(dst) == start {
		dst = append(dst, '0')
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendFloat appends a float with as many digits as tell it apart from its neighbours, or plain as %f of C prints it, which is
// libbpf's form.
func (p *Printer) appendFloat(dst, raw []byte, plain bool) []byte {
	v := p.float(raw)
	switch {
	case v != v:
		if math.Signbit(v) {
			dst = append(dst, '-')
		}
		return append(dst, "nan"...)
	case math.IsInf(v, 1):
		return append(dst, "inf"...)
	case math.IsInf(v, -1):
		return append(dst, "-inf"...)
	}
	if plain {
		return strconv.AppendFloat(dst, v, 'f', 6, 64)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, len(raw)*8)
}

func (p *Printer) float(raw []byte) float64 {
	bits := p.load(raw)
	if len(raw) == 4 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// pointer writes an address, its name, and the memory behind it if that was captured. An
// error pointer is shown as its error only.
func (w *valueWriter) pointer(b *body, off int) {
	addr := w.p.load(w.raw[off : off+int(b.size)])
	if addr == 0 {
		if w.o.Plain {
			w.str("(nil)")
		} else {
			w.str("NULL")
		}
		return
	}
	if name := errno.Name(-addr); !w.o.Plain && name != "" {
		w.str("-")
		w.str(name)
		return
	}
	w.dst = append(w.dst, "0x"...)
	w.dst = strconv.AppendUint(w.dst, addr, 16)
	if w.o.PointerName != nil {
		w.dst = symname.AppendBehind(w.dst, addr, w.o.PointerName)
	}
	w.follow(&w.p.ptrs[b.first], addr)
}
