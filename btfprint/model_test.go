// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// model is a second, slow implementation of the text that libbpf defines. It
// knows libbpf's faults one by one: with all of them switched on it must give
// what libbpf gives, byte for byte, so that it is known to be right; with all
// of them off it is what Printer must give. What differs between libbpf and
// Printer is then the named faults and nothing else.
type model struct {
	faults  faults
	compact bool
	noNames bool
	zeroes  bool

	out   strings.Builder
	data  []byte
	end   int // data[end:] is there, but not part of the value
	depth int

	inArray    bool // an element of an array: no cast, zeroes shown
	chars      bool // 1-byte integers are characters
	terminated bool // the NUL of a character array has been seen
}

// faults of libbpf 1.1.
type faults uint

const (
	// firstMemberDecides: a struct counts as zero when its first member is.
	firstMemberDecides faults = 1 << iota
	// charsForEver: after one array of characters all 1-byte integers are
	// characters, and zero elements of all arrays are left out.
	charsForEver
	// skipsNULs: zero characters are left out and those behind them shown.
	skipsNULs
	// endsForEver: a NUL leaves its indent and nothing else, and all arrays
	// behind it are empty.
	endsForEver
	// unalignedEnums: an enum that is not at a multiple of its size is 0.
	unalignedEnums
	// unsignedBits: a bitfield of a signed enum is never negative.
	unsignedBits
	// unalignedNull: a null pointer that is not at a multiple of 8 is 0x0.
	unalignedNull
	// bitfieldUnits: a bitfield needs as many bytes as its type has, from its
	// own first byte on.
	bitfieldUnits
	// oddSpelling: functions without parameters lack the word void, an enum
	// without a name has a space behind the keyword.
	oddSpelling
	// bareEnums: a value of a signed enum that has no name lacks what follows
	// a value: comma and newline.
	bareEnums
	// emptyElements: an array of elements without a size ends the text.
	emptyElements

	allFaults faults = 1<<iota - 1
)

var (
	errShort = errors.New("not enough bytes")
	errBad   = errors.New("not supported")
)

func (m *model) has(f faults) bool { return m.faults&f != 0 }

// run prints a value of type t.
func (m *model) run(t btf.Type, data []byte) (string, error) {
	m.data = append(append([]byte(nil), data...), make([]byte, 64)...)
	m.end = len(data)
	err := m.dump("", t, 0, 0, 0)
	return m.out.String(), err
}

func (m *model) printf(format string, args ...any) { fmt.Fprintf(&m.out, format, args...) }

func (m *model) indent() {
	if !m.compact {
		m.out.WriteString(strings.Repeat("\t", m.depth))
	}
}

func (m *model) newline() string {
	if m.compact || m.depth == 0 {
		return ""
	}
	return "\n"
}

func (m *model) valuef(format string, args ...any) {
	m.printf(format, args...)
	if m.depth > 0 {
		m.out.WriteString(",")
	}
	m.out.WriteString(m.newline())
}

func strip(t btf.Type) btf.Type {
	for {
		switch q := t.(type) {
		case *btf.Typedef:
			t = q.Type
		case *btf.Const:
			t = q.Type
		case *btf.Volatile:
			t = q.Type
		case *btf.Restrict:
			t = q.Type
		case *btf.TypeTag:
			t = q.Type
		default:
			return t
		}
	}
}

func sizeof(t btf.Type) int {
	n, err := btf.Sizeof(t)
	if err != nil {
		return 0
	}
	return n
}

func (m *model) dump(name string, t btf.Type, off, bit, bits int) error {
	if m.short(t, off, bit, bits) {
		return errShort
	}
	if !m.zeroes && m.depth > 0 && !(m.inArray && !(m.chars && m.has(skipsNULs))) {
		if m.zero(t, off, bit, bits) {
			return nil
		}
	}
	m.indent()
	if !m.noNames {
		if name != "" {
			m.printf(".%s = ", name)
		}
		if !m.inArray {
			m.printf("(%s)", m.cast(t))
		}
	}
	switch t := strip(t).(type) {
	case *btf.Int:
		if bits > 0 {
			m.valuef("0x%x", m.bitfield(int(t.Size), off, bit, bits))
			return nil
		}
		return m.integer(t, off)
	case *btf.Float:
		if t.Size == 4 {
			m.valuef("%f", math.Float32frombits(binary.LittleEndian.Uint32(m.data[off:])))
		} else {
			m.valuef("%f", math.Float64frombits(binary.LittleEndian.Uint64(m.data[off:])))
		}
		return nil
	case *btf.Pointer:
		if p := binary.LittleEndian.Uint64(m.data[off:]); p != 0 || off%8 != 0 && m.has(unalignedNull) {
			m.valuef("0x%x", p)
		} else {
			m.valuef("(nil)")
		}
		return nil
	case *btf.Enum:
		return m.enum(t, off, bit, bits)
	case *btf.Array:
		return m.array(t, off)
	case *btf.Struct:
		return m.members(t.Members, off)
	case *btf.Union:
		return m.members(t.Members, off)
	}
	m.printf("<unsupported kind>")
	return errBad
}

// short reports whether bytes are missing, which only scalars mind.
func (m *model) short(t btf.Type, off, bit, bits int) bool {
	switch strip(t).(type) {
	case *btf.Struct, *btf.Union, *btf.Array:
		return false
	}
	if bits > 0 && !m.has(bitfieldUnits) {
		return off+(bit+bits+7)/8 > m.end
	}
	return off+sizeof(t) > m.end
}

func (m *model) allZero(off, n int) bool {
	for _, c := range m.data[off : off+n] {
		if c != 0 {
			return false
		}
	}
	return true
}

func (m *model) zero(t btf.Type, off, bit, bits int) bool {
	if m.has(charsForEver) && m.inArray && !m.chars {
		return false
	}
	switch t := strip(t).(type) {
	case *btf.Int:
		if bits > 0 {
			return m.bitfield(int(t.Size), off, bit, bits) == 0
		}
		return m.allZero(off, int(t.Size))
	case *btf.Enum:
		if bits > 0 && !m.has(bitfieldUnits) {
			return m.bitfield(int(t.Size), off, bit, bits) == 0
		}
		if off%int(t.Size) != 0 && m.has(unalignedEnums) {
			return true
		}
		return m.allZero(off, int(t.Size))
	case *btf.Array:
		n := sizeof(t.Type)
		if i, ok := strip(t.Type).(*btf.Int); ok && i.Size == 1 && t.Nelems > 0 && m.data[off] == 0 {
			return true
		}
		for i := range int(t.Nelems) {
			if !m.zero(t.Type, off+i*n, bit, 0) {
				return false
			}
		}
		return true
	case *btf.Struct:
		return m.zeroMembers(t.Members, off)
	case *btf.Union:
		return m.zeroMembers(t.Members, off)
	}
	return m.allZero(off, sizeof(t))
}

func (m *model) zeroMembers(members []btf.Member, off int) bool {
	for _, mem := range members {
		at := int(mem.Offset)
		z := m.zero(mem.Type, off+at/8, at%8, int(mem.BitfieldSize))
		if !z || m.has(firstMemberDecides) {
			return z
		}
	}
	return true
}

// bitfield reads bits by their number, least significant first.
func (m *model) bitfield(_, off, bit, bits int) uint64 {
	var v uint64
	for i := range bits {
		at := bit + i
		v |= uint64(m.data[off+at/8]>>(at%8)&1) << i
	}
	return v
}

func (m *model) integer(t *btf.Int, off int) error {
	d := m.data[off:]
	signed := t.Encoding == btf.Signed
	switch t.Size {
	case 16:
		hi, lo := binary.LittleEndian.Uint64(d[8:]), binary.LittleEndian.Uint64(d)
		if hi == 0 {
			m.valuef("0x%x", lo)
		} else {
			m.valuef("0x%x%016x", hi, lo)
		}
	case 8:
		if signed {
			m.valuef("%d", int64(binary.LittleEndian.Uint64(d)))
		} else {
			m.valuef("%d", binary.LittleEndian.Uint64(d))
		}
	case 4:
		if signed {
			m.valuef("%d", int32(binary.LittleEndian.Uint32(d)))
		} else {
			m.valuef("%d", binary.LittleEndian.Uint32(d))
		}
	case 2:
		if signed {
			m.valuef("%d", int16(binary.LittleEndian.Uint16(d)))
		} else {
			m.valuef("%d", binary.LittleEndian.Uint16(d))
		}
	case 1:
		m.byte(d[0], signed)
	default:
		return errBad
	}
	return nil
}

func (m *model) byte(c byte, signed bool) {
	if m.chars {
		switch {
		case m.terminated:
			return
		case c == 0:
			m.terminated = true
			if !m.has(endsForEver) {
				m.valuef(`'\0'`)
			}
			return
		case c >= ' ' && c <= '~':
			m.valuef("'%c'", c)
			return
		}
	}
	if signed {
		m.valuef("%d", int8(c))
	} else {
		m.valuef("%d", c)
	}
}

func (m *model) enum(t *btf.Enum, off, bit, bits int) error {
	var v uint64
	n := int(t.Size)
	switch {
	case bits > 0:
		v = m.bitfield(n, off, bit, bits)
	case off%n != 0 && m.has(unalignedEnums):
		v = 0
	default:
		for i := n - 1; i >= 0; i-- {
			v = v<<8 | uint64(m.data[off+i])
		}
	}
	width := n * 8
	if bits > 0 && !m.has(unsignedBits) {
		width = bits
	}
	if shift := 64 - width; t.Signed {
		v = uint64(int64(v<<shift) >> shift)
	}
	for _, e := range t.Values {
		if e.Value == v {
			m.valuef("%s", e.Name)
			return nil
		}
	}
	suffix := ""
	switch {
	case n == 8 && t.Signed:
		suffix = "LL"
	case n == 8:
		suffix = "ULL"
	}
	switch {
	case t.Signed && n < 8 && m.has(bareEnums):
		m.printf("%d", int64(v))
	case t.Signed:
		m.valuef("%d%s", int64(v), suffix)
	default:
		m.valuef("%d%s", v, suffix)
	}
	return nil
}

func (m *model) array(t *btf.Array, off int) error {
	n := sizeof(t.Type)
	if n == 0 && m.has(emptyElements) {
		return errBad
	}
	chars, inArray, terminated := m.chars, m.inArray, m.terminated
	if i, ok := strip(t.Type).(*btf.Int); ok && i.Size == 1 {
		m.chars = true
	} else if !m.has(charsForEver) {
		m.chars = false
	}
	m.depth++
	m.printf("[%s", m.newline())
	m.inArray = true
	if !m.has(endsForEver) {
		m.terminated = false
	}
	for i := range int(t.Nelems) {
		if m.terminated || n == 0 {
			break
		}
		if m.chars && !m.has(skipsNULs) && !m.zeroes && m.data[off+i*n] == 0 && n == 1 {
			break
		}
		if err := m.dump("", t.Type, off+i*n, 0, 0); err != nil && !m.has(allFaults) {
			return err
		}
	}
	m.inArray = inArray
	if !m.has(endsForEver) {
		m.terminated = terminated
	}
	if !m.has(charsForEver) {
		m.chars = chars
	}
	m.depth--
	m.indent()
	m.valuef("]")
	return nil
}

func (m *model) members(members []btf.Member, off int) error {
	chars := m.chars
	if !m.has(charsForEver) {
		m.chars = false
	}
	m.depth++
	m.printf("{%s", m.newline())
	for _, mem := range members {
		at := int(mem.Offset)
		if err := m.dump(mem.Name, mem.Type, off+at/8, at%8, int(mem.BitfieldSize)); err != nil {
			return err
		}
	}
	if !m.has(charsForEver) {
		m.chars = chars
	}
	m.depth--
	m.indent()
	m.valuef("}")
	return nil
}

func (m *model) cast(t btf.Type) string {
	name := castName(t, "")
	if m.has(oddSpelling) {
		name = strings.ReplaceAll(name, "(void)", "()")
		if name == "enum" {
			name = "enum "
		}
	}
	return name
}

// castName spells a type as libbpf does, around what has been written of it so
// far: the stars, brackets and parentheses between the type and its end.
func castName(t btf.Type, inner string) string {
	switch t := t.(type) {
	case *btf.Const:
		return castName(t.Type, inner)
	case *btf.Volatile:
		return castName(t.Type, inner)
	case *btf.Restrict:
		return castName(t.Type, inner)
	case *btf.TypeTag:
		return castName(t.Type, inner)
	case *btf.Pointer:
		return castName(t.Target, "*"+inner)
	case *btf.Array:
		if strings.HasPrefix(inner, "*") {
			inner = "(" + inner + ")"
		}
		return castName(t.Type, fmt.Sprintf("%s[%d]", inner, t.Nelems))
	case *btf.FuncProto:
		if strings.HasPrefix(inner, "*") {
			inner = " (" + inner + ")"
		}
		return castName(t.Return, inner+castParams(t.Params))
	}
	name := "void"
	switch t := t.(type) {
	case *btf.Struct:
		name = strings.TrimRight("struct "+t.Name, " ")
	case *btf.Union:
		name = strings.TrimRight("union "+t.Name, " ")
	case *btf.Enum:
		name = strings.TrimRight("enum "+t.Name, " ")
	case *btf.Fwd:
		name = t.Kind.String() + " " + t.Name
	case *btf.Void:
	default:
		name = t.TypeName()
	}
	if strings.HasPrefix(inner, "*") {
		name += " "
	}
	return name + inner
}

func castParams(params []btf.FuncParam) string {
	var list []string
	for i, p := range params {
		if _, void := p.Type.(*btf.Void); void && i == len(params)-1 {
			if i == 0 {
				return "(void)"
			}
			list = append(list, "...")
			break
		}
		s := castName(p.Type, "")
		if p.Name != "" {
			s += " " + p.Name
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return "(void)"
	}
	return "(" + strings.Join(list, ", ") + ")"
}
