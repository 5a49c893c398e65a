// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/longdouble"
	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

const (
	// maxNesting bounds nesting of structs, arrays and typedefs. The kernel's types stay
	// below 20.
	maxNesting = 64
	// maxValues bounds the members of one value. Members of nested types count at each
	// place; the elements of an array count once. In corrupt BTF, a struct may hold two of
	// another, which holds two of a third, and so on. The kernel's largest types have some
	// 5,000 members.
	maxValues = 1 << 17
)

// Compile prepares a Printer for values of type t in the given byte order. Types without
// values (void, functions, forward declarations) and types that contradict themselves are
// errors.
func Compile(t btf.Type, order binary.ByteOrder) (*Printer, error) {
	c := compiler{
		p:      &Printer{little: order.Uint16([]byte{1, 0}) == 1},
		bodies: make(map[btf.Type]uint32),
		spans:  make(map[string]span),
	}
	root, err := c.field(t, "")
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", AppendTypeName(nil, t), err)
	}
	c.p.root = root
	return c.p, nil
}

var (
	errNoValue = errors.New("a type without values")
	errNested  = errors.New("nested too deeply")
	errSize    = errors.New("too large")
)

// A compiler fills the tables of a Printer. A named type is compiled once and shared by all
// its uses.
type compiler struct {
	p      *Printer
	bodies map[btf.Type]uint32
	values []int // for each of Printer.bodies, the count that maxValues limits
	spans  map[string]span
	depth  int
	buf    []byte
}

// A scope holds the keys of one JSON object: the members of a struct, and those of its
// anonymous members.
type scope map[string]int

// intern stores a text once and returns its place.
func (c *compiler) intern(text []byte) span {
	if s, ok := c.spans[string(text)]; ok {
		return s
	}
	start := len(c.p.text)
	c.p.text = append(c.p.text, text...)
	s := span{uint32(start), uint32(len(c.p.text))}
	c.spans[string(text)] = s
	return s
}

// field compiles a type together with the text before its values.
func (c *compiler) field(t btf.Type, name string) (field, error) {
	f := field{last: true}
	if name != "" {
		c.buf = terminal.AppendName(append(c.buf[:0], '.'), name)
		c.buf = append(c.buf, " = "...)
		f.name = c.intern(c.buf)
	}
	c.buf = AppendTypeName(append(c.buf[:0], '('), t)
	c.buf = append(c.buf, ')')
	f.cast = c.intern(c.buf)

	var err error
	if f.body, err = c.body(t, nil); err != nil {
		return f, err
	}
	f.known = c.known(t, f.body)
	return f, nil
}

// body compiles a type. If keys is not nil, the type is an anonymous member, and adds its
// members to that object; such a body is not shared.
func (c *compiler) body(t btf.Type, keys scope) (uint32, error) {
	if c.depth++; c.depth > maxNesting {
		return 0, errNested
	}
	defer func() { c.depth-- }()

	t, err := underlying(t)
	if err != nil {
		return 0, err
	}
	if keys == nil {
		if id, ok := c.bodies[t]; ok {
			return id, nil
		}
	}
	b, err := c.compile(t, keys)
	if err != nil {
		return 0, err
	}
	values := 1
	switch b.kind {
	case kindStruct, kindUnion:
		for _, f := range c.p.fields[b.first : b.first+b.n] {
			values += c.values[f.body]
		}
	case kindArray:
		values += c.values[c.p.elems[b.first].body]
	}
	if values > maxValues || len(c.p.fields) > maxValues {
		return 0, errSize
	}
	id := uint32(len(c.p.bodies))
	c.p.bodies = append(c.p.bodies, b)
	c.values = append(c.values, values)
	if keys == nil {
		c.bodies[t] = id
	}
	return id, nil
}

// compile fills in a body by the kind of its type. Types without a size have no values.
func (c *compiler) compile(t btf.Type, keys scope) (body, error) {
	switch t := t.(type) {
	case *btf.Int:
		return compileInt(t)
	case *btf.Float:
		return c.float(t)
	case *btf.Pointer:
		c.p.ptrs = append(c.p.ptrs, pointee{target: t.Target})
		return body{kind: kindPointer, size: 8, dense: true, first: uint32(len(c.p.ptrs) - 1)}, nil
	case *btf.Enum:
		return c.enum(t)
	case *btf.Struct:
		b := body{kind: kindStruct, size: t.Size}
		return b, c.members(&b, t.Members, keys)
	case *btf.Union:
		b := body{kind: kindUnion, size: t.Size}
		return b, c.members(&b, t.Members, keys)
	case *btf.Array:
		return c.array(t)
	default:
		return body{}, errNoValue
	}
}

// compileInt handles integers. Sizes that no register has, such as the 16 bytes of
// __int128, are shown in hexadecimal.
func compileInt(t *btf.Int) (body, error) {
	b := body{
		size:   t.Size,
		dense:  true,
		signed: t.Encoding == btf.Signed,
		isBool: t.Encoding == btf.Bool,
		isChar: t.Encoding == btf.Char || t.Name == "char",
	}
	switch t.Size {
	case 1, 2, 4, 8:
		b.kind = kindInt
	case 3, 5, 6, 7, 16:
		b.kind = kindWide
	default:
		return b, fmt.Errorf("integer of %d bytes", t.Size)
	}
	return b, nil
}

// float handles floats. It takes those of an unknown format as integers.
func (c *compiler) float(t *btf.Float) (body, error) {
	if f := longdouble.Of(t); f != longdouble.None && c.p.little {
		return body{kind: kindLongDouble, size: t.Size, n: uint32(f), dense: f.Size() == t.Size}, nil
	}
	switch t.Size {
	case 4, 8:
		return body{kind: kindFloat, size: t.Size, dense: true}, nil
	case 2, 10, 12, 16:
		return body{kind: kindWide, size: t.Size, dense: true}, nil
	}
	return body{}, fmt.Errorf("float of %d bytes", t.Size)
}

// array handles arrays. Bytes get a kind of their own, because they may be text.
func (c *compiler) array(t *btf.Array) (body, error) {
	elem, err := c.body(t.Type, nil)
	if err != nil {
		return body{}, err
	}
	e := &c.p.bodies[elem]
	size := uint64(e.size) * uint64(t.Nelems)
	if size > math.MaxInt32 {
		return body{}, errSize
	}
	b := body{kind: kindArray, size: uint32(size), first: uint32(len(c.p.elems)), n: t.Nelems, dense: e.dense}
	c.p.elems = append(c.p.elems, field{body: elem, known: c.known(t.Type, elem)})
	if e.kind == kindInt && e.size == 1 {
		b.kind, b.dense = kindBytes, false
		b.isBool, b.isChar, b.signed = e.isBool, e.isChar, e.signed
	}
	return b, nil
}

// members compiles the members of a struct or union into b.
func (c *compiler) members(b *body, members []btf.Member, keys scope) error {
	if keys == nil {
		keys = make(scope, len(members))
	}
	fields := make([]field, 0, len(members))
	for i := range members {
		f, err := c.member(&members[i], b.size, keys)
		if err != nil {
			return fmt.Errorf("member %d %q: %w", i, members[i].Name, err)
		}
		f.last = i == len(members)-1 || b.kind == kindUnion
		fields = append(fields, f)
	}
	b.first, b.n = uint32(len(c.p.fields)), uint32(len(fields))
	c.p.fields = append(c.p.fields, fields...)
	b.dense = c.isDense(b, fields)
	return nil
}

// member compiles a member and the text before its value. It checks that the member lies
// inside its type, so that printing needs no further checks.
func (c *compiler) member(m *btf.Member, size uint32, keys scope) (field, error) {
	var f field
	if m.Name != "" {
		c.buf = terminal.AppendName(append(c.buf[:0], '.'), m.Name)
		c.buf = append(c.buf, " = "...)
		f.name = c.intern(c.buf)
	}
	c.buf = AppendTypeName(append(c.buf[:0], '('), m.Type)
	c.buf = append(c.buf, ')')
	f.cast = c.intern(c.buf)

	var err error
	switch inner, _ := underlying(m.Type); inner.(type) {
	case *btf.Struct, *btf.Union:
		if m.Name == "" {
			f.body, err = c.body(m.Type, keys)
			break
		}
		f.key = c.key(m.Name, keys)
		f.body, err = c.body(m.Type, nil)
	default:
		f.key = c.key(m.Name, keys)
		f.body, err = c.body(m.Type, nil)
	}
	if err != nil {
		return f, err
	}

	b := &c.p.bodies[f.body]
	f.known = c.knownMember(m, f.body)
	f.off, f.bit = uint32(m.Offset)/8, uint8(m.Offset%8)
	end := uint64(m.Offset) + uint64(b.size)*8
	if m.BitfieldSize > 0 {
		f.bits = uint8(min(m.BitfieldSize, math.MaxUint8))
		end = uint64(m.Offset) + uint64(m.BitfieldSize)
		if b.kind != kindInt && b.kind != kindEnum || m.BitfieldSize > 64 {
			return f, fmt.Errorf("bitfield of %d bits in a type that has none", m.BitfieldSize)
		}
	} else if f.bit != 0 {
		return f, errors.New("not at a byte")
	}
	if end > uint64(size)*8 {
		return f, errors.New("outside of its type")
	}
	return f, nil
}

// key returns the JSON key of a member. It changes a name that the object already has: C
// does not allow that, but corrupt BTF may have it.
func (c *compiler) key(name string, keys scope) span {
	keys[name]++
	n := keys[name]
	c.buf = terminal.AppendJSON(append(c.buf[:0], '"'), name)
	if n > 1 {
		c.buf = fmt.Appendf(c.buf, "#%d", n)
	}
	c.buf = append(c.buf, `":`...)
	return c.intern(c.buf)
}

// isDense reports whether the dense members cover every bit of a struct, or one of them the
// whole union. A dense value is zero exactly if all its bytes are.
func (c *compiler) isDense(b *body, fields []field) bool {
	next := uint32(0)
	for _, f := range fields {
		inner := &c.p.bodies[f.body]
		covers := inner.dense && f.bits == 0
		if b.kind == kindUnion && covers && inner.size == b.size {
			return true
		}
		if !covers || f.off != next {
			next = math.MaxUint32
			continue
		}
		next = f.off + inner.size
	}
	return b.kind == kindStruct && next == b.size
}

// underlying returns the type below typedefs and qualifiers.
func underlying(t btf.Type) (btf.Type, error) {
	t, ok := qualifier.Strip(t, qualifier.All|qualifier.Typedef|qualifier.Var)
	if !ok {
		return nil, errNested
	}
	return t, nil
}

// compile compiles the target on first use. Two goroutines may both do so; the results
// are equal, and either is kept.
func (t *pointee) compile(little bool) *followed {
	if done := t.state.Load(); done != nil {
		return done
	}
	done := &followed{}
	var order binary.ByteOrder = binary.BigEndian
	if little {
		order = binary.LittleEndian
	}
	if p, err := Compile(t.target, order); err == nil && p.Size() > 0 {
		done.p = p
		b := &p.bodies[p.root.body]
		done.text = b.kind == kindInt && b.size == 1 && b.isChar
	}
	t.state.Store(done)
	return done
}
