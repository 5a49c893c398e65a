// SPDX-License-Identifier: Apache-2.0

package debuginfo

// read reads the header of the unit's line program. It returns a cursor at the program.
func (h *lineHeader) read(u *unit) (cursor, bool) {
	c := at(u.main.line, u.stmtList)
	end, offsetSize := c.length()
	c.b = c.b[:end]
	h.offsetSize, h.addrSize, h.version = offsetSize, u.addrSize, c.u16()
	if h.version < 2 || h.version > 5 {
		return c, false
	}
	if h.version >= 5 {
		h.addrSize = c.u8()
		c.u8() // size of segment selectors
	}
	n := c.sized(offsetSize)
	program := c
	program.skip(n)
	h.minInst = c.u8()
	if h.version >= 4 {
		c.u8() // operations per instruction: 1, except on VLIW machines
	}
	c.u8() // whether lines start as statements
	h.lineBase = int8(c.u8())
	h.lineRange = c.u8()
	h.opcodeBase = max(c.u8(), 1)
	for i := 1; i < int(h.opcodeBase); i++ {
		h.operands[i] = c.u8()
	}
	if c.bad || program.bad || len(program.b)-program.pos > mostProgram {
		return c, false
	}
	if h.version < 5 {
		h.readNames(&c)
	} else {
		h.readTables(&c)
	}
	return program, true
}

// readNames reads the tables of versions 2 to 4. An empty name ends them.
func (h *lineHeader) readNames(c *cursor) {
	for {
		dir := c.text()
		if len(dir) == 0 {
			break
		}
		if len(h.dirs) == mostFiles {
			return
		}
		h.dirs = append(h.dirs, value{form: formString, text: dir})
	}
	for len(h.files) < mostFiles {
		name := c.text()
		if len(name) == 0 {
			break
		}
		h.files = append(h.files, lineFile{value{form: formString, text: name}, c.uleb()})
		c.uleb() // modification time
		c.uleb() // size
	}
}

// readTables reads the tables of version 5, which describe their own format. It does not
// resolve strings: most files of a unit are headers without any wanted line.
func (h *lineHeader) readTables(c *cursor) {
	format := tableFormat(c)
	for n := c.uleb(); n > 0 && !c.bad; n-- {
		if len(h.dirs) == mostFiles {
			return
		}
		h.dirs = append(h.dirs, h.readFile(c, format).name)
	}
	format = tableFormat(c)
	n := min(c.uleb(), mostFiles)
	if h.usual(format) {
		for ; n > 0 && !c.bad; n-- {
			h.files = append(h.files, lineFile{value{form: formLineStrp, n: uint64(c.u32())}, c.uleb()})
		}
		return
	}
	for ; n > 0 && !c.bad; n-- {
		h.files = append(h.files, h.readFile(c, format))
	}
}

// usual reports whether the format is that of GCC and binutils. A fast path is worthwhile:
// a kernel names 800,000 files.
func (h *lineHeader) usual(format []attribute) bool {
	return len(format) == 2 && h.offsetSize == 4 &&
		format[0] == attribute{name: lineContentPath, form: formLineStrp} &&
		format[1] == attribute{name: lineContentDirectory, form: formUdata}
}

// tableFormat reads the description of an entry of a table: what each field is, and its
// form.
func tableFormat(c *cursor) []attribute {
	format := make([]attribute, c.u8())
	for i := range format {
		format[i] = attribute{name: uint16(min(c.uleb(), 0xffff)), form: uint16(min(c.uleb(), 0xffff))}
	}
	return format
}

// readFile reads one entry of a table with any format.
func (h *lineHeader) readFile(c *cursor, format []attribute) lineFile {
	var f lineFile
	before := c.pos
	for _, a := range format {
		v := h.formSizes.read(c, a)
		switch a.name {
		case lineContentPath:
			f.name = v
		case lineContentDirectory:
			f.dir = v.n
		}
	}
	if c.pos == before {
		c.fail() // entries without a size would never end
	}
	return f
}
