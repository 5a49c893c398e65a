// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// TypeOptions says how to declare a type. The zero value is pahole's format.
type TypeOptions struct {
	Indent string // one level of indent; "" is a tab
	Level  int    // indent of the whole text but its first line, in levels
	// NoLayout leaves out offsets, sizes, holes, totals and column alignment.
	NoLayout bool
}

const (
	maxTypeLength = 1 << 20
	cacheline     = 64

	// Columns of a member's line, as in pahole's output.
	nameColumn    = 35
	commentColumn = 57
)

// AppendType appends the declaration of a type, with a semicolon but no newline. A struct
// or union has the offset and size of each member, in bytes, and its holes, as pahole shows
// them. For an enum it writes the values, for a typedef what it stands for, for a function
// the prototype.
func AppendType(dst []byte, t btf.Type, o TypeOptions) []byte {
	if o.Indent == "" {
		o.Indent = "\t"
	}
	l := layoutWriter{o: o, level: o.Level, w: newDeclWriter(dst, spellDecl)}
	l.w.limit = len(dst) + maxTypeLength
	l.w.body = func(_ *declWriter, t btf.Type) { l.body(t, false) }

	switch t := t.(type) {
	case *btf.Typedef:
		l.w.str("typedef ")
		l.w.decl(t.Type, t.Name)
	case *btf.Func, *btf.Var:
		l.w.decl(declared(t), t.TypeName())
	case *btf.Struct, *btf.Union, *btf.Enum:
		l.w.str(keyword(t))
		if name := t.TypeName(); name != "" {
			l.w.str(" ")
			l.w.dst = terminal.AppendName(l.w.dst, name)
		}
		l.body(t, true)
	default:
		l.w.decl(t, "")
	}
	l.w.str(";")
	return l.w.dst
}

// declared returns the type of a function or variable.
func declared(t btf.Type) btf.Type {
	switch t := t.(type) {
	case *btf.Func:
		return t.Type
	case *btf.Var:
		return t.Type
	}
	return t
}

func keyword(t btf.Type) string {
	switch t.(type) {
	case *btf.Struct:
		return "struct"
	case *btf.Union:
		return "union"
	}
	return "enum"
}

// A layoutWriter writes types over several lines.
type layoutWriter struct {
	w     *declWriter
	o     TypeOptions
	level int
	base  uint32 // offset in the outermost type
}

// line starts a line with its indent.
func (l *layoutWriter) line() {
	l.w.str("\n")
	for range l.level {
		l.w.str(l.o.Indent)
	}
}

// body writes the braces of a type and what is between them; for the outermost type also
// the totals.
func (l *layoutWriter) body(t btf.Type, outermost bool) {
	if l.w.depth > maxDeclDepth {
		l.w.str(" { ... }")
		return
	}
	tight := l.w.tight
	l.w.depth++
	l.w.tight = false
	l.w.str(" {")
	l.level++
	switch t := t.(type) {
	case *btf.Struct:
		slots, sum := layout(t.Members, t.Size, false)
		l.members(slots, sum)
		if outermost && !l.o.NoLayout {
			l.totals(t.Size, len(t.Members), sum)
		}
	case *btf.Union:
		slots, sum := layout(t.Members, t.Size, true)
		l.members(slots, sum)
		if outermost && !l.o.NoLayout {
			l.totals(t.Size, len(t.Members), sum)
		}
	case *btf.Enum:
		l.enumerators(t)
	}
	l.level--
	l.line()
	l.w.str("}")
	l.w.depth--
	l.w.tight = tight
	// The name after the closing brace is not aligned.
	l.w.mark = -1
}

// enumerators writes the values of an enum, one on each line.
func (l *layoutWriter) enumerators(t *btf.Enum) {
	for _, v := range t.Values {
		if l.w.over() {
			l.line()
			l.w.str("...")
			return
		}
		l.line()
		l.w.dst = appendEnumerator(l.w.dst, t, v)
		l.w.str(",")
	}
}

// members writes the members of a struct or union, with the holes between them.
func (l *layoutWriter) members(slots []slot, sum totals) {
	l.holes(sum.bitLead, sum.lead, len(slots) > 0)
	for i := range slots {
		s := &slots[i]
		if l.w.over() {
			l.line()
			l.w.str("...")
			return
		}
		l.line()
		l.member(s)
		l.holes(s.bitHole, s.hole, i+1 < len(slots))
	}
}

// holes writes the unused bits and bytes between two members, between empty lines.
func (l *layoutWriter) holes(bits, bytes uint32, more bool) {
	if l.o.NoLayout || bits == 0 && bytes == 0 {
		return
	}
	l.w.str("\n")
	if bits > 0 {
		l.line()
		l.hole(bits, "bit")
	}
	if bytes > 0 {
		l.line()
		l.hole(bytes, "byte")
	}
	if more {
		l.w.str("\n")
	}
}

// member writes one member, on one line or several.
func (l *layoutWriter) member(s *slot) {
	start := len(l.w.dst)
	outer := l.base
	if embeds(s.Type) {
		l.base += s.off
	} else {
		l.base = 0
	}
	l.w.mark = 0
	l.w.decl(s.Type, s.Name)
	if !l.o.NoLayout {
		l.align(start)
	}
	if s.BitfieldSize > 0 {
		l.w.str(":")
		l.number(uint32(s.BitfieldSize), 0)
	}
	l.w.str(";")
	l.base = outer
	if l.o.NoLayout {
		return
	}
	l.pad(commentColumn)
	l.w.str("/* ")
	l.number(l.base+s.off, 5)
	switch {
	case s.infinite:
		l.w.str("     ?")
	case s.BitfieldSize > 0:
		l.w.str(":")
		l.number(s.bit, 2)
		l.w.str(" ")
		l.number(s.size, 2)
	default:
		l.w.str(" ")
		l.number(s.size, 5)
	}
	l.w.str(" */")
}

// embeds reports whether a type contains its members itself, rather than behind a pointer.
func embeds(t btf.Type) bool {
	for range maxDeclDepth {
		switch inner := qualifier.Bare(t).(type) {
		case *btf.Array:
			t = inner.Type
		case *btf.Struct, *btf.Union:
			return true
		default:
			return false
		}
	}
	return false
}

// align moves the text from the mark on, the name of the member, to its column.
func (l *layoutWriter) align(start int) {
	mark := l.w.mark
	if mark <= start {
		return
	}
	tail := append([]byte(nil), l.w.dst[mark:]...)
	l.w.dst = l.w.dst[:mark]
	if column(l.w.dst) < nameColumn {
		l.pad(nameColumn)
	}
	l.w.dst = append(l.w.dst, tail...)
}

// pad fills the line with spaces up to a column; it writes one at least.
func (l *layoutWriter) pad(to int) {
	for n := max(to-column(l.w.dst), 1); n > 0; n-- {
		if n == 1 && l.w.last() == ' ' && column(l.w.dst) >= to {
			return
		}
		l.w.str(" ")
	}
}

// column returns the width of the last line of dst. Tabs are 8 wide.
func column(dst []byte) int {
	start := len(dst)
	for start > 0 && dst[start-1] != '\n' {
		start--
	}
	col := 0
	for _, c := range dst[start:] {
		if c == '\t' {
			col += 8 - col%8
		} else {
			col++
		}
	}
	return col
}

func (l *layoutWriter) number(n uint32, width int) {
	start := len(l.w.dst)
	l.w.dst = strconv.AppendUint(l.w.dst, uint64(n), 10)
	digits := len(l.w.dst) - start
	for ; digits < width; digits++ {
		l.w.dst = append(l.w.dst, 0)
		copy(l.w.dst[start+1:], l.w.dst[start:])
		l.w.dst[start] = ' '
	}
}

// counted writes `3 bytes` or `1 byte`.
func (l *layoutWriter) counted(n uint32, unit string) {
	l.number(n, 0)
	l.w.str(" ")
	l.w.str(unit)
	if n != 1 {
		l.w.str("s")
	}
}

func (l *layoutWriter) hole(n uint32, unit string) {
	l.w.str("/* XXX ")
	l.counted(n, unit)
	l.w.str(" hole, try to pack */")
}

// totals writes the lines at the end of a struct.
func (l *layoutWriter) totals(size uint32, members int, sum totals) {
	l.w.str("\n")
	l.line()
	l.labelled("/* size: ", size)
	l.labelled(", cachelines: ", (size+cacheline-1)/cacheline)
	l.labelled(", members: ", uint32(members))
	l.w.str(" */")
	if sum.holes > 0 || sum.bitHoles > 0 {
		l.used(sum)
	}
	if sum.padding > 0 {
		l.line()
		l.labelled("/* padding: ", sum.padding)
		l.w.str(" */")
	}
	if sum.bitPadding > 0 {
		l.line()
		l.labelled("/* bit_padding: ", sum.bitPadding)
		l.w.str(" bits */")
	}
	if rest := size % cacheline; rest > 0 {
		l.line()
		l.labelled("/* last cacheline: ", rest)
		l.w.str(" bytes */")
	}
}

// used writes how much of a struct with holes is in use.
func (l *layoutWriter) used(sum totals) {
	if sum.bytes > 0 {
		l.line()
		l.labelled("/* sum members: ", sum.bytes)
		if sum.holes > 0 {
			l.labelled(", holes: ", sum.holes)
			l.labelled(", sum holes: ", sum.holeBytes)
		}
		l.w.str(" */")
	}
	if sum.bits > 0 {
		l.line()
		l.labelled("/* sum bitfield members: ", sum.bits)
		l.w.str(" bits")
		if sum.bitHoles > 0 {
			l.labelled(", bit holes: ", sum.bitHoles)
			l.labelled(", sum bit holes: ", sum.holeBits)
			l.w.str(" bits")
		} else {
			l.labelled(" (", sum.bits/8)
			l.w.str(" bytes)")
		}
		l.w.str(" */")
	}
}

func (l *layoutWriter) labelled(label string, n uint32) {
	l.w.str(label)
	l.number(n, 0)
}
