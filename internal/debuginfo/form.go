// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"encoding/binary"
)

// formSizes holds what the sizes of a unit's values depend on.
type formSizes struct {
	version    uint16
	addrSize   uint8
	offsetSize uint8
}

// size returns how many bytes a value takes, or -1 if only the value itself tells.
func (f formSizes) size(form uint16) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return int(f.addrSize)
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return int(f.offsetSize)
	case formRefAddr:
		if f.version <= 2 {
			return int(f.addrSize)
		}
		return int(f.offsetSize)
	}
	return -1
}

// A value is the value of an attribute as the file has it. The meaning of its number
// depends on the form.
type value struct {
	form uint16 // 0 if the entry lacks the attribute
	n    uint64
	text []byte // string of DW_FORM_string, or bytes of a block
}

// read reads the value of an attribute.
func (f formSizes) read(c *cursor, a attribute) value {
	form := a.form
	for form == formIndirect && !c.bad {
		form = uint16(min(c.uleb(), 0xffff))
	}
	v := value{form: form}
	switch form {
	case formFlagPresent:
		v.n = 1
	case formImplicitConst:
		v.n = uint64(a.constant)
	case formString:
		v.text = c.text()
	case formSdata:
		v.n = uint64(c.sleb())
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.n = c.uleb()
	case formData16:
		c.skip(16)
	case formBlock, formExprloc:
		v.text = c.bytes(c.uleb())
	case formBlock1:
		v.text = c.bytes(uint64(c.u8()))
	case formBlock2:
		v.text = c.bytes(uint64(c.u16()))
	case formBlock4:
		v.text = c.bytes(uint64(c.u32()))
	default:
		size := f.size(form)
		if size < 0 {
			c.fail() // its size is unknown, and so is where the next one starts
			return value{}
		}
		v.n = c.sized(uint8(size))
	}
	return v
}

// skip skips the attributes of an entry.
func (u *unit) skip(c *cursor, a *abbrev) {
	c.skip(uint64(a.fixed))
	for i := a.rest; i < a.last; i++ {
		switch attr := &u.abbrevs.attributes[i]; attr.form {
		case formExprloc, formBlock:
			c.skip(c.uleb())
		case formString:
			c.text()
		default:
			u.read(c, *attr)
		}
	}
}

// skipTree skips the attributes of an entry. If the entry says where its children end, they
// are skipped too. Otherwise inside is true, and the children follow.
func (u *unit) skipTree(c *cursor, a *abbrev) (inside bool) {
	if a.children && a.sibling >= 0 {
		if next, ok := u.sibling(c.b, c.pos, a); ok {
			c.pos = next
			return false
		}
	}
	u.skip(c, a)
	return a.children
}

// sibling returns where an entry ends with its children, if it says so. Its attributes are
// at pos.
func (u *unit) sibling(b []byte, pos int, a *abbrev) (next int, ok bool) {
	at := pos + int(a.sibling)
	if at+4 > len(b) {
		return 0, false
	}
	end := u.off + uint64(binary.LittleEndian.Uint32(b[at:]))
	// Never go backwards: a walk must end.
	return int(end), end > uint64(pos) && end <= uint64(len(b))
}

// str returns the string of a value. It shares the file's memory.
func (u *unit) str(v value) []byte { return u.strIn(u.sections, v) }

// strIn is str for a line table, which is in the file of the unit's skeleton.
func (u *unit) strIn(s *sections, v value) []byte {
	switch v.form {
	case formString:
		return v.text
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

// textAt returns the string at an offset, up to a limit. In a damaged file, many names
// could all extend to the end of a large section.
func textAt(section []byte, off uint64) []byte {
	const most = 1 << 14
	if off > uint64(len(section)) {
		return nil
	}
	b := section[off:min(uint64(len(section)), off+most)]
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
