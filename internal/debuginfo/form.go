// SPDX-License-Identifier: Apache-2.0

package debuginfo

// An attribute is one attribute specification of an abbreviation.
type attribute struct {
	name, form uint16
	constant   int64 // value of DW_FORM_implicit_const
}

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
