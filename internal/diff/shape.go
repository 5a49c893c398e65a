// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// A shape says what the bytes of an argument are: its parts that are compared. An argument of 600 bytes has some
// 200 of them, and a session 10,000 calls. So calls keep the bytes, and texts are made of those that differ only.
type shape struct {
	arguments *arguments
	leaves    []leaf
	limit     int               // bytes that leaves cover; further parts of the type are not here
	groups    map[string]*group // by their bytes
}

// A group is the values of one argument.
type group struct {
	shape *shape
	raw   string
	hash  uint64
}

// A leaf is one part of an argument that is compared.
type leaf struct {
	name      string
	hash      uint64 // of name
	kind      leafKind
	off, size int
	bit, bits int // of a bitfield, which begins in the byte at off
	signed    bool
	port      portOrder
	printer   *btfprint.Printer // for leafPrinted
}

// A portOrder says whether a number is a port of this machine.
type portOrder uint8

const (
	noPort portOrder = iota
	hostPort
	networkPort
)

type leafKind uint8

const (
	leafNumber leafKind = iota
	leafBool
	leafPointer
	leafText    // all bytes that there are
	leafPrinted // enums, arrays of numbers, floats: by their type
)

// Bounds of a shape, which corrupt BTF may ask too much of.
const (
	maxLeaves  = 1 << 14
	maxNesting = 64
	maxTypes   = 1 << 16 // that are looked at: a union may have one union twice, and so on
)

// A flattener finds the leaves of a type.
type flattener struct {
	*shape
	fn    string
	err   error
	types int // looked at
	name  []byte
	owner string // the struct around, or that around it if it has no name
	port  portOrder
}

// usual reports whether values of a type are no facts of a call.
func (f *flattener) usual(t btf.Type) bool {
	if f.arguments.exact {
		return false
	}
	for layer := qualifier.Const; layer != 0; {
		if usualStructs[t.TypeName()] {
			return true
		}
		layer, t = qualifier.Outer(t)
	}
	return false
}

// ends reports whether nothing more is looked at.
func (f *flattener) ends(off int) bool {
	return f.err != nil || off >= f.limit || len(f.leaves) >= maxLeaves || f.types >= maxTypes
}

// add adds a leaf, unless it is never compared.
func (f *flattener) add(l leaf) {
	l.name = f.arguments.names.share(string(f.name))
	if f.arguments.ignores(f.fn, l.name) {
		return
	}
	l.hash = maphash.String(f.arguments.names.seed, l.name)
	f.leaves = append(f.leaves, l)
}

// flatten adds the leaves of a type at an offset. operator stands between the name and that of a member.
func (f *flattener) flatten(t btf.Type, off int, operator string, depth int) {
	if f.types++; f.usual(t) {
		return
	}
	t, ok := qualifier.Strip(t, qualifier.All|qualifier.Typedef|qualifier.Var)
	if !ok || depth > maxNesting || f.ends(off) {
		return
	}
	size, err := btf.Sizeof(t)
	if err != nil {
		return
	}
	l := leaf{off: off, size: size}
	switch t := t.(type) {
	case *btf.Struct:
		f.members(t.Name, t.Members, off, operator, depth)
	case *btf.Union:
		f.members(t.Name, t.Members, off, operator, depth)
	case *btf.Array:
		f.array(t, l, depth)
	case *btf.Pointer:
		l.kind, l.size = leafPointer, 8
		f.add(l)
	case *btf.Int:
		f.integer(t, l)
	default:
		f.printed(t, l)
	}
}

// integer adds an integer, or a bitfield of one.
func (f *flattener) integer(t *btf.Int, l leaf) {
	switch {
	case t.Size != 1 && t.Size != 2 && t.Size != 4 && t.Size != 8:
		f.printed(t, l)
		return
	case t.Encoding == btf.Bool:
		l.kind = leafBool
	}
	l.signed, l.port = t.Encoding == btf.Signed, f.port
	f.add(l)
}

// printed adds a part whose text depends on its type.
func (f *flattener) printed(t btf.Type, l leaf) {
	l.kind = leafPrinted
	if l.printer, f.err = f.arguments.printers.Of(t); f.err == nil {
		f.add(l)
	}
}

// array adds an array: numbers are one value, of all else each element is one, or several.
func (f *flattener) array(t *btf.Array, l leaf, depth int) {
	elem, _ := qualifier.Strip(t.Type, qualifier.All|qualifier.Typedef|qualifier.Var)
	switch elem.(type) {
	case *btf.Int, *btf.Float:
		if t.Nelems > 0 {
			f.printed(t, l)
		}
		return
	}
	size, err := btf.Sizeof(elem)
	if err != nil || size == 0 {
		return
	}
	at := len(f.name)
	for i := range int(t.Nelems) {
		if f.ends(l.off + i*size) {
			break
		}
		f.name = append(strconv.AppendInt(append(f.name[:at], '['), int64(i), 10), ']')
		f.flatten(elem, l.off+i*size, ".", depth+1)
	}
	f.name = f.name[:at]
}

// members adds the members of a struct or union. Those of one without a name are in the one around it.
func (f *flattener) members(of string, members []btf.Member, off int, operator string, depth int) {
	at, owner := len(f.name), f.owner
	defer func() { f.owner = owner }()
	if of == "" {
		of = owner
	}
	for i := range members {
		m := &members[i]
		f.owner = of
		key := of + "." + m.Name
		if usualMembers[key] && !f.arguments.exact || f.arguments.ignore.usual(m.Name) {
			continue
		}
		f.port = noPort
		if network, is := localPorts[key]; is && network {
			f.port = networkPort
		} else if is {
			f.port = hostPort
		}
		below := operator
		if m.Name != "" {
			f.name = append(append(f.name, operator...), m.Name...)
			below = "."
		}
		if m.BitfieldSize > 0 {
			f.bitfield(m, off)
		} else {
			f.flatten(m.Type, off+int(m.Offset.Bytes()), below, depth+1)
		}
		f.name = f.name[:at]
	}
}

// bitfield adds a member that has a number of bits.
func (f *flattener) bitfield(m *btf.Member, off int) {
	l := leaf{off: off + int(m.Offset/8), bit: int(m.Offset % 8), bits: int(m.BitfieldSize)}
	l.size = (l.bit + l.bits + 7) / 8
	if l.bits > 64 || f.ends(l.off) {
		return
	}
	t, _ := qualifier.Strip(m.Type, qualifier.All|qualifier.Typedef|qualifier.Var)
	switch t := t.(type) {
	case *btf.Int:
		l.signed = t.Encoding == btf.Signed
		if t.Encoding == btf.Bool {
			l.kind = leafBool
		}
		f.add(l)
	case *btf.Enum:
		l.signed = t.Signed
		f.printed(t, l)
	}
}

// there reports whether a leaf was captured. Of an array, its begin is enough.
func (l *leaf) there(raw string) bool {
	if l.kind == leafText || l.kind == leafPrinted && l.bits == 0 {
		return l.off < len(raw) || l.kind == leafText
	}
	return l.off+l.size <= len(raw)
}

// number returns the value of a leaf that is at most 8 bytes, extended by its sign.
func (l *leaf) number(raw string) uint64 {
	var b [16]byte
	copy(b[:], raw[l.off:l.off+l.size])
	n, width := binary.LittleEndian.Uint64(b[:]), 8*l.size
	if l.bits > 0 {
		n >>= l.bit
		if l.bit > 0 {
			n |= binary.LittleEndian.Uint64(b[8:]) << (64 - l.bit)
		}
		width = l.bits
	}
	shift := max(64-width, 0)
	if l.signed {
		return uint64(int64(n<<shift) >> shift)
	}
	return n << shift >> shift
}

// A reading is what is compared of a leaf: a number or a text.
type reading struct {
	text     string
	number   uint64
	isNumber bool
}

// leaf returns what is compared of a leaf.
func (a *arguments) leaf(l *leaf, raw string) reading {
	switch l.kind {
	case leafText:
		return reading{text: a.printedText(nil, raw)}
	case leafPrinted:
		return reading{text: a.printedText(l, raw)}
	case leafPointer:
		return reading{text: a.pointerText(l.number(raw))}
	}
	n := l.number(raw)
	switch {
	case l.kind == leafBool && n != 0:
		return reading{text: "true"}
	case l.kind == leafBool:
		return reading{text: "false"}
	case !a.exact && addressLike(n, l.signed):
		return reading{text: address}
	case !a.exact && l.port != noPort && chance(n, l.port):
		return reading{text: chosenPort}
	}
	return reading{number: n, isNumber: true}
}

// chosenPort stands for all ports that the kernel chooses.
const chosenPort = "a port of the kernel's choice"

// chance reports whether a port is one of those that the kernel chooses from (net.ipv4.ip_local_port_range).
func chance(n uint64, order portOrder) bool {
	if order == networkPort {
		n = uint64(bits.ReverseBytes16(uint16(n)))
	}
	return n >= 32768 && n <= 60999
}

// pointerText returns the text of a pointer: an error, the name of what is there, or that it is an address.
func (a *arguments) pointerText(addr uint64) string {
	if addr == 0 {
		return "NULL"
	}
	if known, ok := a.pointers[addr]; ok {
		return known
	}
	text := address
	if name := errno.Name(-addr); name != "" {
		text = "-" + name
	} else if name := a.symbol(addr); name != "" {
		text = name
	} else if a.exact {
		text = "0x" + strconv.FormatUint(addr, 16)
	}
	text = a.names.share(text)
	a.pointers[addr] = text
	a.memory += valueMemory
	return text
}

func (a *arguments) symbol(addr uint64) string {
	if a.symbols == nil {
		return ""
	}
	a.scratch = a.symbols(a.scratch[:0], addr)
	return string(a.scratch)
}

// printedText returns the text of bytes as JSON has them; l is nil for a string.
func (a *arguments) printedText(l *leaf, raw string) string {
	key := printedKey{raw: raw}
	if l != nil {
		key.printer, key.raw = l.printer, raw[l.off:min(l.off+l.size, len(raw))]
	}
	if l != nil && l.bits > 0 {
		key.raw = string(binary.LittleEndian.AppendUint64(nil, l.number(raw)))[:l.printer.Size()]
	}
	if known, ok := a.printed[key]; ok {
		return known
	}
	if l == nil {
		a.scratch = append(terminal.AppendJSON(append(a.scratch[:0], '"'), raw), '"')
	} else {
		a.scratch = l.printer.AppendJSON(a.scratch[:0], []byte(key.raw), &a.options)
	}
	text := a.names.share(a.flat(a.scratch))
	a.printed[key] = text
	a.memory += valueMemory + len(key.raw) + len(text)
	return text
}

// A printedKey is the bytes of a value, and its type.
type printedKey struct {
	printer *btfprint.Printer
	raw     string
}

// group returns the values of bytes.
func (s *shape) group(raw []byte) *group {
	if known := s.groups[string(raw)]; known != nil {
		return known
	}
	g := &group{shape: s, raw: string(raw)}
	s.groups[g.raw] = g
	s.arguments.memory += valueMemory + len(raw)
	for i := range s.leaves {
		l := &s.leaves[i]
		if !l.there(g.raw) {
			continue
		}
		v := s.arguments.leaf(l, g.raw)
		if !v.isNumber {
			v.number = s.arguments.names.hash(v.text)
		}
		g.hash = mixed(g.hash^l.hash, v.number)
	}
	return g
}

// mixed returns a hash of two.
func mixed(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return high ^ low
}

// reading returns what is compared of a leaf; nothing if it was not captured.
func (g *group) reading(leaf int) reading {
	l := &g.shape.leaves[leaf]
	if !l.there(g.raw) {
		return reading{}
	}
	return g.shape.arguments.leaf(l, g.raw)
}

// text returns the text of a leaf's reading.
func (g *group) text(leaf int, r reading) string {
	switch l := &g.shape.leaves[leaf]; {
	case !r.isNumber:
		return r.text
	case l.signed:
		return strconv.FormatInt(int64(r.number), 10)
	}
	return strconv.FormatUint(r.number, 10)
}

// appendValues appends the values of a group.
func (g *group) appendValues(dst []Value) []Value {
	for i := range g.shape.leaves {
		if r := g.reading(i); r != (reading{}) {
			dst = append(dst, Value{Name: g.shape.leaves[i].name, Text: g.text(i, r)})
		}
	}
	return dst
}

// arguments are what is known of the arguments of a run.
type arguments struct {
	texts
	shapes   map[shapeKey]*shape
	pointers map[uint64]string // texts of addresses
	printed  map[printedKey]string
	printers output.Printers
	options  btfprint.ValueOptions
	symbols  func(dst []byte, addr uint64) []byte
	scratch  []byte
	raw      []byte
}

func newArguments(run output.Run) arguments {
	names := run.Names()
	return arguments{shapes: map[shapeKey]*shape{}, pointers: map[uint64]string{}, printed: map[printedKey]string{}, printers: output.Printers{}, symbols: names.Symbol,
		options: btfprint.ValueOptions{ShowZeroes: true, Typed: true, PointerName: names.Symbol}}
}

// A shapeKey is an argument of a function, with the form in which it was captured.
type shapeKey struct {
	fn     string
	param  *layout.Param
	target btf.Type
	has    captured
}

// captured says what there is of a pointer.
type captured uint8

const (
	valueOnly captured = iota
	withTarget
	withText
)

// read returns the values of an argument of a function, which is called name; nil if they could not be read.
func (a *arguments) read(fn string, arg *session.Arg, name []byte) (*group, error) {
	if arg.Withheld || arg.Beyond || arg.Value == nil {
		return nil, nil
	}
	key := shapeKey{fn: fn, param: arg.Param}
	a.raw = append(a.raw[:0], arg.Value...)
	if _, pointer := btf.UnderlyingType(arg.Param.Type).(*btf.Pointer); pointer && arg.Target != nil {
		if arg.Text {
			key.has = withText
			a.raw = append(a.raw[:0], arg.Target...)
		} else {
			key.has, key.target = withTarget, arg.TargetType
			a.raw = append(append(a.raw, make([]byte, max(8-len(arg.Value), 0))...), arg.Target...)
		}
	}
	s := a.shapes[key]
	if s == nil || s.limit < len(a.raw) {
		var err error
		if s, err = a.shapeOf(&key, name, len(a.raw)); err != nil {
			return nil, err
		}
		a.shapes[key] = s
	}
	return s.group(a.raw), nil
}

// shapeOf makes the shape of an argument of so many bytes.
func (a *arguments) shapeOf(key *shapeKey, name []byte, size int) (*shape, error) {
	f := flattener{shape: &shape{arguments: a, limit: size, groups: map[string]*group{}}, fn: key.fn, name: name}
	switch key.has {
	case withText:
		f.add(leaf{kind: leafText})
	case withTarget:
		f.add(leaf{kind: leafPointer, size: 8})
		operator := "->"
		switch target, _ := qualifier.Strip(key.target, qualifier.All|qualifier.Typedef|qualifier.Var); target.(type) {
		case *btf.Struct, *btf.Union:
		default:
			f.name = append([]byte{'*'}, f.name...)
			operator = "."
		}
		f.flatten(key.target, 8, operator, 0)
	default:
		f.flatten(key.param.Type, 0, ".", 0)
	}
	a.memory += len(f.leaves) * leafMemory
	return f.shape, f.err
}

// leafMemory is what a leaf takes, in bytes.
const leafMemory = 96
