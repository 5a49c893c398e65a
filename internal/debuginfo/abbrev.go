// SPDX-License-Identifier: Apache-2.0

package debuginfo

// An attribute is one column of an abbreviation.
type attribute struct {
	name, form uint16
	constant   int64 // of DW_FORM_implicit_const
}

// A role is what an entry is to the look-up of addresses.
type role uint8

const (
	roleOther role = iota
	roleFunction
	roleInlined
	roleBlock
	roleParameter
)

// A step is how a walk over the entries below the root gets over one.
type step uint8

const (
	stepOther    step = iota
	stepFixed         // it has fixed bytes and no children
	stepSibling       // at a fixed place it says where its children end
	stepFunction      // it may cover addresses, so it is looked at
)

// An abbrev is the shape of debugging information entries. What is needed to
// step over an entry is computed once: most of the 18 million entries of a
// kernel are only stepped over.
type abbrev struct {
	code     uint64
	tag      uint16
	role     role
	step     step
	children bool
	hasPC    bool  // the entry may cover addresses
	sibling  int16 // where DW_AT_sibling stands, from the first attribute; -1: nowhere, or not at a fixed place
	// The first fixed bytes belong to attributes of fixed sizes, those from
	// rest on have to be read.
	fixed       int32
	first, last int32 // in the table's attributes
	rest        int32
}

// An abbrevTable is the abbreviations of one unit. Compilers number them from 1
// on, so the code is nearly always the index plus one.
type abbrevTable struct {
	abbrevs    []abbrev
	attributes []attribute
	sparse     map[uint64]int // by code, nil when codes are 1, 2, 3, …
	nested     bool           // some function has a static link
	code       bool           // some function may have addresses
	bytes      int            // how much was read
}

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

// parse reads the table at off, for units with the given sizes of addresses and
// offsets. With only set it stops after the abbreviation of that code.
func (t *abbrevTable) parse(section []byte, off uint64, f formSizes, only uint64) bool {
	t.abbrevs, t.attributes, t.sparse, t.nested = t.abbrevs[:0], t.attributes[:0], nil, false
	t.code = false
	c := at(section, off)
	for {
		code := c.uleb()
		if code == 0 || c.bad {
			break
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
	}
	fixed := true
	for {
		name, form := c.pair()
		if name == 0 && form == 0 || c.bad {
			break
		}
		// The standard's numbers end at 0x3fff and 0x1fff.
		if name > 0xffff || form > 0xffff || a.fixed > 1<<24 {
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
