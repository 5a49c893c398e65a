// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "encoding/binary"

// A role says what an entry means for the look-up of addresses.
type role uint8

const (
	roleOther role = iota
	roleFunction
	roleInlined
	roleBlock
	roleParameter
	roleVariable
)

// A step says how a walk skips an entry at the top level of a unit.
type step uint8

const (
	stepOther    step = iota
	stepFixed         // fixed size, no children
	stepSibling       // a reference at a fixed place leads past its children
	stepFunction      // may cover addresses: look at it
)

// An abbrev is the shape of debugging information entries. How to skip such an entry is
// computed once, because most of a kernel's 18 million entries are only skipped.
type abbrev struct {
	code     uint64
	tag      uint16
	role     role
	step     step
	children bool
	hasPC    bool  // the entry may cover addresses
	sibling  int16 // offset of DW_AT_sibling from the first attribute; -1 if it has none at a fixed place
	// The first fixed bytes are attributes of fixed size. Attributes from rest on must be
	// decoded to be skipped.
	fixed       int32
	first, last int32 // in the table's attributes
	rest        int32
}

// An abbrevTable holds the abbreviations of one unit. Compilers number them from 1, so the
// index is nearly always the code minus one.
type abbrevTable struct {
	abbrevs    []abbrev
	attributes []attribute
	sparse     map[uint64]int // by code; nil if the codes are 1, 2, 3, …
	nested     bool           // some function has a static link
	code       bool           // some function may have addresses
	bytes      int            // bytes read
}

// find returns the abbreviation with this code, or nil.
func (t *abbrevTable) find(code uint64) *abbrev {
	if t.sparse != nil {
		i, ok := t.sparse[code]
		if !ok {
			return nil
		}
		return &t.abbrevs[i]
	}
	if code-1 >= uint64(len(t.abbrevs)) {
		return nil
	}
	return &t.abbrevs[code-1]
}

func (t *abbrevTable) of(a *abbrev) []attribute { return t.attributes[a.first:a.last] }

// parse reads the table at off, for units with the given sizes of addresses and offsets. If
// only is not 0, it stops after the abbreviation with that code. It returns false if the
// table is damaged.
func (t *abbrevTable) parse(section []byte, off uint64, f formSizes, only uint64) bool {
	t.abbrevs, t.attributes, t.sparse, t.nested = t.abbrevs[:0], t.attributes[:0], nil, false
	t.code = false
	c := at(section, off)
	for {
		code := c.uleb()
		if code == 0 || c.bad {
			break
		}
		if len(t.abbrevs) == mostAbbrevs {
			return false
		}
		a := t.parseOne(&c, code, f)
		if only != 0 && code != only {
			t.attributes = t.attributes[:a.first]
			continue
		}
		t.code = t.code || a.role == roleFunction && a.hasPC
		t.abbrevs = append(t.abbrevs, a)
		if t.sparse == nil && code != uint64(len(t.abbrevs)) {
			t.sparse = make(map[uint64]int, len(t.abbrevs))
			for i := range t.abbrevs[:len(t.abbrevs)-1] {
				t.sparse[t.abbrevs[i].code] = i
			}
		}
		if t.sparse != nil {
			t.sparse[code] = len(t.abbrevs) - 1
		}
		if only != 0 {
			break
		}
	}
	t.bytes = c.pos - int(min(off, uint64(len(section))))
	return !c.bad
}

// parseOne reads one abbreviation and works out how to skip its entries.
func (t *abbrevTable) parseOne(c *cursor, code uint64, f formSizes) abbrev {
	a := abbrev{code: code, sibling: -1, first: int32(len(t.attributes))}
	tag := c.uleb()
	a.tag = uint16(min(tag, 0xffff))
	a.children = c.u8() != 0
	switch tag {
	case tagSubprogram:
		a.role = roleFunction
	case tagInlinedSubroutine:
		a.role = roleInlined
	case tagLexicalBlock:
		a.role = roleBlock
	case tagFormalParameter:
		a.role = roleParameter
	case tagVariable:
		a.role = roleVariable
	}
	fixed := true
	for {
		name, form := c.pair()
		if name == 0 && form == 0 || c.bad {
			break
		}
		// The standard's numbers end at 0x3fff (attributes) and 0x1fff (forms).
		if name > 0xffff || form > 0xffff || a.fixed > 1<<24 || len(t.attributes) == mostAttributes {
			c.fail()
			break
		}
		attr := attribute{name: uint16(name), form: uint16(form)}
		if attr.form == formImplicitConst {
			attr.constant = c.sleb()
		}
		switch attr.name {
		case attrLowPC, attrRanges:
			a.hasPC = true
		case attrStaticLink:
			t.nested = true
		case attrSibling:
			if fixed && attr.form == formRef4 && a.fixed < 1<<15 {
				a.sibling = int16(a.fixed)
			}
		}
		t.attributes = append(t.attributes, attr)
		size := f.size(attr.form)
		if size < 0 {
			fixed = false
		}
		if fixed {
			a.fixed += int32(size)
			a.rest = int32(len(t.attributes))
		}
	}
	a.last = int32(len(t.attributes))
	a.rest = max(a.rest, a.first)
	switch {
	case a.role == roleFunction && a.hasPC:
		a.step = stepFunction
	case !a.children && a.rest == a.last:
		a.step = stepFixed
	case a.children && a.sibling >= 0:
		a.step = stepSibling
	}
	return a
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
