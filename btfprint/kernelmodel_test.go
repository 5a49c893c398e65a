// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
)

// kernelModel is to the kernel's bpf_snprintf_btf what model is to libbpf: with
// all faults on it must give the kernel's text, with none the Printer's.
type kernelModel struct {
	faults kernelFaults
	zeroes bool

	out        strings.Builder
	data       []byte
	depth      int
	inArray    bool // an element of an array: no name, no cast
	chars      bool // 1-byte integers are characters
	terminated bool // the NUL of a character array has been seen
}

// kernelFaults are those of kernel/bpf/btf.c from Linux 6.1 to 7.3.
type kernelFaults uint

const (
	// oddCasts: array lengths, functions, forward declarations and types
	// with a qualifier are not spelled; a typedef of a pointer gets a star.
	oddCasts kernelFaults = 1 << iota
	// cutNames: a name and its cast are cut to 79 bytes.
	cutNames
	// zeroEnums: an enum is shown for 0 if that has a name.
	zeroEnums
	// wideEnums: of every enum but those of 64 bits 4 bytes are read.
	wideEnums
	// hexEnums: bitfields of enums are numbers.
	hexEnums
	// bareElements: elements of arrays have neither opening brackets nor names.
	bareElements
	// forgetsArray: behind an array, or a look whether one is zero, elements of
	// the array around it are taken for members.
	forgetsArray
	// dropsElements: zero elements are left out.
	dropsElements
	// firstElement: all elements of an array of pointers or arrays show the first.
	firstElement
	// latin1: bytes from 0xa0 on are printed as they are.
	latin1
	// longPointers: pointers have all 16 digits.
	longPointers
	// silentNULs: the NUL of a character array is not shown among zeroes.
	silentNULs
	// noSuffix: numbers of 64-bit enums lack LL and ULL.
	noSuffix
	// shallow: no line is indented by more than 32.
	shallow
	// namelessVoid: void has no name in a cast. Linux 7.3 has mended that.
	namelessVoid

	allKernelFaults kernelFaults = 1<<iota - 1
)

func (m *kernelModel) has(f kernelFaults) bool { return m.faults&f != 0 }

func (m *kernelModel) run(t btf.Type, data []byte) string {
	m.data = append(append([]byte(nil), data...), make([]byte, 16)...)
	m.show("", t, 0, 0, 0)
	return m.out.String()
}

func (m *kernelModel) indent() {
	n := m.depth
	if m.has(shallow) {
		n = min(n, 32)
	}
	m.out.WriteString(strings.Repeat(" ", n))
}

func (m *kernelModel) end() {
	if m.depth > 0 {
		m.out.WriteString(",")
	}
	if m.depth > 0 || m.has(allKernelFaults) {
		m.out.WriteString("\n")
	}
}

// head writes what stands before a value.
func (m *kernelModel) head(name string, t btf.Type, bracket string) {
	m.indent()
	if m.inArray && m.has(bareElements) {
		return
	}
	s, cast := "", castName(t, "")
	if m.has(oddCasts) {
		var ok bool
		if cast, bracket, ok = m.kernelCast(t, bracket); !ok {
			return
		}
	}
	if name != "" {
		s = "." + name + " = "
	}
	if !m.inArray {
		s += "(" + cast + ")"
	}
	if s += bracket; m.has(cutNames) {
		s = s[:min(len(s), 79)]
	}
	m.out.WriteString(s)
}

// kernelCast spells a type as btf_show_name does.
func (m *kernelModel) kernelCast(t btf.Type, bracket string) (string, string, bool) {
	name, stars, dims := "", "", ""
	typedef, void := false, false
	last := t
	for hops := 0; ; hops++ {
		if hops == 10 {
			return "", "", false
		}
		var next btf.Type
		switch t := last.(type) {
		case *btf.Typedef:
			if name == "" {
				name = t.Name
			}
			typedef, next = true, t.Type
		case *btf.Array:
			dims, next = dims+"[]", t.Type
		case *btf.Pointer:
			stars, next = stars+"*", t.Target
		}
		if next == nil {
			break
		}
		if next = qualifier.Bare(next); isVoid(next) {
			void = true
			break
		}
		last = next
	}
	if name == "" {
		name = last.TypeName()
	}
	if name == "" && void && !m.has(namelessVoid) {
		name = "void"
	}
	prefix := ""
	switch last.(type) {
	case *btf.Struct:
		prefix = "struct"
	case *btf.Union:
		prefix = "union"
	case *btf.Enum:
		prefix = "enum"
	}
	switch t.(type) {
	case *btf.Const, *btf.Volatile, *btf.Restrict, *btf.TypeTag:
		bracket = ""
	}
	if typedef {
		prefix = ""
	}
	if prefix != "" && name != "" {
		prefix += " "
	}
	if stars != "" {
		stars = " " + stars
		bracket = ""
	}
	if dims != "" && stars == "" {
		bracket = "["
	}
	return prefix + name + stars + dims, bracket, true
}

// leaf writes a value without parts, unless it is zero and may be left out.
func (m *kernelModel) leaf(name string, t btf.Type, zero bool, format string, v any) {
	if zero && m.elides() {
		return
	}
	m.head(name, t, "")
	fmt.Fprintf(&m.out, format, v)
	m.end()
}

func (m *kernelModel) elides() bool {
	return !m.zeroes && m.depth > 0 && (!m.inArray || m.has(dropsElements))
}

func (m *kernelModel) show(name string, t btf.Type, off, bit, bits int) {
	value := model{data: m.data}
	switch u := strip(t).(type) {
	case *btf.Int:
		if bits > 0 {
			v := value.bitfield(0, off, bit, bits)
			m.leaf(name, t, v == 0, "0x%x", v)
			return
		}
		m.integer(name, t, u, off)
	case *btf.Pointer:
		p := binary.LittleEndian.Uint64(m.data[off:])
		switch {
		case m.has(longPointers):
			m.leaf(name, t, p == 0, "0x%016x", p)
		case p == 0:
			m.leaf(name, t, true, "%s", "(nil)")
		default:
			m.leaf(name, t, false, "0x%x", p)
		}
	case *btf.Enum:
		m.enum(name, t, u, off, bit, bits)
	case *btf.Struct:
		m.aggregate(name, t, off, "{", "}", func() { m.members(u.Members, off) })
	case *btf.Union:
		m.aggregate(name, t, off, "{", "}", func() { m.members(u.Members, off) })
	case *btf.Array:
		m.aggregate(name, t, off, "[", "]", func() { m.elements(u, off) })
	}
}

func (m *kernelModel) integer(name string, t btf.Type, u *btf.Int, off int) {
	text := model{data: m.data}
	zero := text.allZero(off, int(u.Size))
	if c := m.data[off]; u.Size == 1 && m.chars {
		switch {
		case m.terminated:
			return
		case c == 0:
			m.terminated = true
			if m.zeroes && !m.has(silentNULs) {
				m.leaf(name, t, false, "%s", `'\0'`)
			}
			return
		case c >= ' ' && c <= '~' || c >= 0xa0 && m.has(latin1):
			m.leaf(name, t, false, "%s", "'"+string([]byte{c})+"'")
			return
		}
	}
	if err := text.integer(u, off); err == nil {
		m.leaf(name, t, zero, "%s", text.out.String())
	}
}

func (m *kernelModel) enum(name string, t btf.Type, u *btf.Enum, off, bit, bits int) {
	text := model{data: m.data}
	if bits > 0 && m.has(hexEnums) {
		v := text.bitfield(0, off, bit, bits)
		m.leaf(name, t, v == 0, "0x%x", v)
		return
	}
	if err := text.enum(m.asRead(u), off, bit, bits); err != nil {
		return
	}
	value := text.out.String()
	if m.has(noSuffix) && value[0] <= '9' {
		value = strings.TrimRight(value, "UL")
	}
	zero := m.zero(t, off, bit, bits)
	m.leaf(name, t, zero, "%s", value)
}

// asRead is an enum in the size that it is read in.
func (m *kernelModel) asRead(u *btf.Enum) *btf.Enum {
	if !m.has(wideEnums) || u.Size >= 4 {
		return u
	}
	wide := *u
	wide.Size = 4
	return &wide
}

// zero reports whether nothing of a value would be shown.
func (m *kernelModel) zero(t btf.Type, off, bit, bits int) bool {
	value := model{data: m.data}
	switch u := strip(t).(type) {
	case *btf.Enum:
		if bits > 0 {
			return value.bitfield(0, off, bit, bits) == 0
		}
		if m.has(zeroEnums) {
			for _, e := range u.Values {
				if e.Value == 0 {
					return false
				}
			}
		}
		return value.allZero(off, int(m.asRead(u).Size))
	case *btf.Struct:
		return m.zeroMembers(u.Members, off)
	case *btf.Union:
		return m.zeroMembers(u.Members, off)
	case *btf.Array:
		if i, ok := strip(u.Type).(*btf.Int); ok && i.Size == 1 && u.Nelems > 0 && m.data[off] == 0 {
			return true
		}
		for i := range int(u.Nelems) {
			if !m.zero(u.Type, off+i*m.stride(u), 0, 0) {
				return false
			}
		}
		return true
	}
	return value.zero(t, off, bit, bits)
}

func (m *kernelModel) zeroMembers(members []btf.Member, off int) bool {
	for _, mem := range members {
		at := int(mem.Offset)
		if !m.zero(mem.Type, off+at/8, at%8, int(mem.BitfieldSize)) {
			return false
		}
	}
	return true
}

// stride is the distance of two elements.
func (m *kernelModel) stride(t *btf.Array) int {
	switch strip(t.Type).(type) {
	case *btf.Pointer, *btf.Array:
		if m.has(firstElement) {
			return 0
		}
	}
	return sizeof(t.Type)
}

func (m *kernelModel) aggregate(name string, t btf.Type, off int, open, closing string, body func()) {
	if m.depth > 0 && !m.zeroes && (!m.inArray || m.has(dropsElements)) {
		zero := m.zero(t, off, 0, 0)
		if m.has(forgetsArray) && hasElements(t) {
			m.inArray = false
		}
		if zero {
			return
		}
	}
	m.head(name, t, open)
	m.out.WriteString("\n")
	m.depth++
	body()
	m.depth--
	m.indent()
	m.out.WriteString(closing)
	m.end()
}

// hasElements reports whether there is an array with elements in a type.
func hasElements(t btf.Type) bool {
	var members []btf.Member
	switch u := strip(t).(type) {
	case *btf.Array:
		return u.Nelems > 0
	case *btf.Struct:
		members = u.Members
	case *btf.Union:
		members = u.Members
	}
	for _, mem := range members {
		if hasElements(mem.Type) {
			return true
		}
	}
	return false
}

func (m *kernelModel) members(members []btf.Member, off int) {
	chars, inArray := m.chars, m.inArray
	m.chars = false
	for _, mem := range members {
		at := int(mem.Offset)
		m.show(mem.Name, mem.Type, off+at/8, at%8, int(mem.BitfieldSize))
	}
	m.chars = chars
	if !m.has(forgetsArray) {
		m.inArray = inArray
	}
}

func (m *kernelModel) elements(t *btf.Array, off int) {
	chars, inArray, terminated := m.chars, m.inArray, m.terminated
	i, ok := strip(t.Type).(*btf.Int)
	m.chars, m.terminated = ok && i.Size == 1, false
	for i := range int(t.Nelems) {
		if sizeof(t.Type) == 0 && !m.has(bareElements) {
			break
		}
		m.inArray = true
		m.show("", t.Type, off+i*m.stride(t), 0, 0)
		if m.has(forgetsArray) {
			m.inArray = false
		}
		if m.terminated {
			break
		}
	}
	if m.chars, m.terminated = chars, terminated; !m.has(forgetsArray) {
		m.inArray = inArray
	}
}
