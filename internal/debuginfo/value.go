// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "bytes"

// str returns the string of a value. It shares the file's memory.
func (u *unit) str(v value) []byte { return u.strIn(u.sections, v) }

// strIn is str for a line table, which is in the file of the unit's skeleton.
func (u *unit) strIn(s *sections, v value) []byte {
	switch v.form {
	case formString:
		if len(v.text) < mostText {
			return v.text
		}
	case formStrp:
		return textAt(s.str, v.n)
	case formGNUStrpAlt, formStrpSup:
		if s.sup != nil {
			return textAt(s.sup.str, v.n)
		}
	case formLineStrp:
		return textAt(s.lineStr, v.n)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		c := at(s.strOffsets, u.strOffsetsBase)
		if v.n > uint64(len(s.strOffsets)) {
			return nil
		}
		c.skip(v.n * uint64(u.offsetSize))
		if off := c.sized(u.offsetSize); !c.bad {
			return textAt(s.str, off)
		}
	}
	return nil
}

// mostText bounds the bytes of a string with its NUL. In a damaged file, many names could
// all extend to the end of a large section.
const mostText = 1 << 14

// textAt returns the string at an offset, or nil if it is too long.
func textAt(section []byte, off uint64) []byte {
	if off > uint64(len(section)) {
		return nil
	}
	b := section[off:min(uint64(len(section)), off+mostText)]
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	return nil
}

// address returns the address in a value.
func (u *unit) address(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.n, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return u.indexed(v.n)
	}
	return 0, false
}

// indexed returns entry i of the unit's part of .debug_addr.
func (u *unit) indexed(i uint64) (uint64, bool) {
	if i > uint64(len(u.main.addr)) {
		return 0, false
	}
	c := at(u.main.addr, u.addrBase)
	c.skip(i * uint64(u.addrSize))
	addr := c.sized(u.addrSize)
	return addr, !c.bad
}

// reference returns the offset in .debug_info of the entry that a value refers to. supBit
// is set if the entry is in the supplementary file.
func (u *unit) reference(v value) (uint64, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return u.sections.bias | (u.off + v.n), true
	case formRefAddr:
		return u.sections.bias | v.n, true
	case formGNURefAlt, formRefSup4, formRefSup8:
		return supBit | v.n, u.sections.sup != nil
	}
	// Type signatures do not lead to functions.
	return 0, false
}
