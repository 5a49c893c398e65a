// SPDX-License-Identifier: Apache-2.0

package btfprint

import "github.com/ksnoop/ksnoop/internal/longdouble"

// isZero reports whether a value is left out because all its members are zero; padding does
// not count. With plain, an array of bytes is zero if its first byte is, as in libbpf. A
// value with missing bytes is not zero, so that the gap is shown.
func (w *walker) isZero(f *field, b *body, off int, plain bool) bool {
	if f.bits > 0 {
		return w.p.bitfield(f, w.raw, off) == 0
	}
	if off+int(b.size) > len(w.raw) {
		return false
	}
	return w.p.isZero(b, w.raw, off, plain)
}

// isZero is the recursive part. A dense value is not zero if any of its bytes is not;
// others have padding, so their members decide.
func (p *Printer) isZero(b *body, raw []byte, off int, plain bool) bool {
	size := int(b.size)
	if allZero(raw[off : off+size]) {
		return true
	}
	if b.dense {
		return false
	}
	switch b.kind {
	case kindLongDouble:
		return allZero(raw[off : off+int(longdouble.Format(b.n).Size())])
	case kindBytes:
		return plain && raw[off] == 0
	case kindArray:
		elem := &p.bodies[p.elems[b.first].body]
		for i := range int(b.n) {
			if !p.isZero(elem, raw, off+i*int(elem.size), plain) {
				return false
			}
		}
		return true
	case kindStruct, kindUnion:
		for i := range b.n {
			f := &p.fields[b.first+i]
			if f.bits > 0 {
				if p.bitfield(f, raw, off+int(f.off)) != 0 {
					return false
				}
				continue
			}
			if !p.isZero(&p.bodies[f.body], raw, off+int(f.off), plain) {
				return false
			}
		}
		return true
	}
	return false
}

// allZero tests eight bytes at a time: most members of most objects are zero.
func allZero(raw []byte) bool {
	for len(raw) >= 8 {
		if raw[0]|raw[1]|raw[2]|raw[3]|raw[4]|raw[5]|raw[6]|raw[7] != 0 {
			return false
		}
		raw = raw[8:]
	}
	for _, c := range raw {
		if c != 0 {
			return false
		}
	}
	return true
}
