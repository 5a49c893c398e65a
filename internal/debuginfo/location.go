// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"slices"

	"github.com/ksnoop/ksnoop/internal/dw"
)

// An Op is a step of computing a value from registers and memory, on a stack of 64-bit
// numbers.
type Op struct {
	Code OpCode
	N    uint64 `json:",omitempty"`
}

// An OpCode says what an Op does. Each comment shows what it pops and what it pushes.
type OpCode uint8

const (
	OpConst    OpCode = iota + 1 // .       N
	OpRegister                   // .       register N, in DWARF's numbering
	OpLoad                       // addr    N bytes at addr
	OpExtend                     // x       low N bytes of x, zero-extended
	OpExtendS                    // x       low N bytes of x, sign-extended
	OpNeg                        // x       -x
	OpNot                        // x       ^x
	OpAdd                        // x y     x + y
	OpSub                        // x y     x - y
	OpMul                        // x y     x * y
	OpAnd                        // x y     x & y
	OpOr                         // x y     x | y
	OpXor                        // x y     x ^ y
	OpShl                        // x y     x << y
	OpShr                        // x y     x >> y
	OpSar                        // x y     x >> y, arithmetic
)

// operators maps DWARF's operators to equal OpCodes.
var operators = map[uint8]OpCode{dw.OpNeg: OpNeg, dw.OpNot: OpNot, dw.OpPlus: OpAdd, dw.OpMinus: OpSub, dw.OpMul: OpMul,
	dw.OpAnd: OpAnd, dw.OpOr: OpOr, dw.OpXor: OpXor, dw.OpShl: OpShl, dw.OpShr: OpShr, dw.OpShra: OpSar}

// A Place says where a value is. The Ops compute the value or, if Memory is set, its
// address. Without Ops the value is nowhere: the compiler optimised it out.
type Place struct {
	Ops    []Op `json:",omitempty"`
	Memory bool `json:",omitempty"`
}

// A placer finds where values are at one code address.
type placer struct {
	info   *Info
	unit   *unit
	addr   uint64
	frames *frameTable
	base   []byte // frame base of the function around the code
}

// place returns where a value is, from its location or constant attribute.
func (p *placer) place(location, constant value) Place {
	switch {
	case location.form != 0:
		if expr, ok := p.expression(location); ok {
			return p.parse(expr)
		}
	case constant.form != 0 && constant.text == nil && constant.form != formStrp && constant.form != formLineStrp && constant.form != formData16:
		return Place{Ops: []Op{{OpConst, constant.n}}}
	}
	return Place{}
}

// expression returns the location expression that holds at the address.
func (p *placer) expression(v value) ([]byte, bool) {
	u := p.unit
	switch {
	case v.form == formExprloc || v.text != nil:
		return v.text, true
	case v.form == formLoclistx:
		if v.n > uint64(len(u.sections.loclists)) {
			return nil, false
		}
		c := at(u.sections.loclists, u.loclistsBase)
		c.skip(v.n * uint64(u.offsetSize))
		off := c.sized(u.offsetSize)
		if c.bad {
			return nil, false
		}
		return p.list(u.loclistsBase + off)
	case u.version >= 5:
		return p.list(v.n)
	}
	return p.listV4(v.n)
}

// within reports whether a location holds at the address, before anything is executed
// there. gcc also lists locations with an empty range: they held between two source
// positions that start at the same instruction. Nothing was moved in between, and the first
// of them describes what was passed.
func (p *placer) within(lo, hi uint64) bool {
	return lo <= p.addr && (p.addr < hi || lo == hi && lo == p.addr)
}

// list looks up the address in a list of .debug_loclists.
func (p *placer) list(off uint64) (expr []byte, ok bool) {
	u := p.unit
	c := at(u.sections.loclists, off)
	base := u.lowPC
	var otherwise []byte
	for !c.bad && u.spend() {
		var lo, hi uint64
		switch c.u8() {
		case locEndOfList:
			return otherwise, otherwise != nil
		case locBaseAddressx:
			base, _ = u.indexed(c.uleb())
			continue
		case locBaseAddress:
			base = c.sized(u.addrSize)
			continue
		case locStartxEndx:
			lo, _ = u.indexed(c.uleb())
			hi, _ = u.indexed(c.uleb())
		case locStartxLength:
			lo, _ = u.indexed(c.uleb())
			hi = lo + c.uleb()
		case locOffsetPair:
			lo = base + c.uleb()
			hi = base + c.uleb()
		case locStartEnd:
			lo = c.sized(u.addrSize)
			hi = c.sized(u.addrSize)
		case locStartLength:
			lo = c.sized(u.addrSize)
			hi = lo + c.uleb()
		case locDefault:
			otherwise = c.bytes(c.uleb())
			continue
		default:
			return nil, false
		}
		expr := c.bytes(c.uleb())
		if !c.bad && p.within(lo, hi) {
			return expr, true
		}
	}
	return nil, false
}

// listV4 looks up the address in a list of .debug_loc.
func (p *placer) listV4(off uint64) ([]byte, bool) {
	u := p.unit
	if u.sections != u.main {
		return nil, false // lists in GNU's .dwo files are not supported
	}
	c := at(u.sections.loc, off)
	base := u.lowPC
	most := ^uint64(0) >> (64 - 8*u.addrSize)
	for u.spend() {
		lo, hi := c.sized(u.addrSize), c.sized(u.addrSize)
		switch {
		case c.bad || lo == 0 && hi == 0:
			return nil, false
		case lo == most:
			base = hi
			continue
		}
		expr := c.bytes(uint64(c.u16()))
		if !c.bad && p.within(base+lo, base+hi) {
			return expr, true
		}
	}
	return nil, false
}

// parse parses a location expression. A value that it cannot compute is nowhere.
func (p *placer) parse(expr []byte) Place {
	e := expression{placer: p, cursor: cursor{b: expr}, memory: true}
	for !e.bad && e.pos < len(e.b) && len(e.ops) <= mostOps {
		e.step()
	}
	if e.bad || e.depth != 1 || e.pos < len(e.b) {
		return Place{}
	}
	return Place{Ops: e.ops, Memory: e.memory}
}

// mostOps bounds a computation. In a damaged file, any number of parameters could share one
// of any length.
const mostOps = 64

// An expression is the state of parsing one.
type expression struct {
	cursor
	placer *placer
	ops    []Op
	depth  int  // depth of the stack
	memory bool // the result is an address
}

func (e *expression) push(ops ...Op) {
	e.ops = append(e.ops, ops...)
	e.depth++
}

// apply adds an operation that pops takes values and pushes one.
func (e *expression) apply(takes int, op Op) {
	if e.depth < takes {
		e.fail()
		return
	}
	e.depth -= takes - 1
	e.ops = append(e.ops, op)
}

// above pushes an offset from a register.
func (e *expression) above(reg uint64, offset int64) {
	e.push(Op{OpRegister, reg})
	if offset != 0 {
		e.ops = append(e.ops, Op{OpConst, uint64(offset)}, Op{Code: OpAdd})
	}
}

// end marks the operation that must be the last. memory says whether it leaves an address.
func (e *expression) end(memory bool) {
	e.memory = memory
	if e.pos < len(e.b) {
		e.fail() // only a piece of the value
	}
}

// step parses one operation.
func (e *expression) step() {
	op := e.u8()
	code, ok := operators[op]
	switch {
	case ok && (op == dw.OpNeg || op == dw.OpNot):
		e.apply(1, Op{Code: code})
	case ok:
		e.apply(2, Op{Code: code})
	case op >= dw.OpLit0 && op < dw.OpLit0+dw.NumLit:
		e.push(Op{OpConst, uint64(op - dw.OpLit0)})
	case op >= dw.OpReg0 && op < dw.OpReg0+dw.NumLit:
		e.push(Op{OpRegister, uint64(op - dw.OpReg0)})
		e.end(false)
	case op >= dw.OpBreg0 && op < dw.OpBreg0+dw.NumLit:
		e.above(uint64(op-dw.OpBreg0), e.sleb())
	case op >= dw.OpConst1u && op <= dw.OpConst8s:
		e.push(Op{OpConst, e.constant(op)})
	default:
		e.other(op)
	}
}

// constant reads a number of 1, 2, 4 or 8 bytes, signed or not.
func (e *expression) constant(op uint8) uint64 {
	size := uint8(1) << ((op - dw.OpConst1u) / 2)
	v := e.sized(size)
	if (op-dw.OpConst1u)%2 != 0 {
		shift := 64 - 8*size
		v = uint64(int64(v<<shift) >> shift)
	}
	return v
}

// other parses the operations that are not constants, registers or plain operators.
func (e *expression) other(op uint8) {
	u := e.placer.unit
	switch op {
	case dw.OpConstu:
		e.push(Op{OpConst, e.uleb()})
	case dw.OpConsts:
		e.push(Op{OpConst, uint64(e.sleb())})
	case dw.OpAddr:
		e.push(Op{OpConst, e.placer.moved(e.sized(u.addrSize))})
	case dw.OpAddrx:
		addr, ok := u.indexed(e.uleb())
		if e.push(Op{OpConst, e.placer.moved(addr)}); !ok {
			e.fail()
		}
	case dw.OpPlusUconst:
		e.ops = append(e.ops, Op{OpConst, e.uleb()})
		e.apply(1, Op{Code: OpAdd})
	case dw.OpDeref:
		e.apply(1, Op{OpLoad, uint64(u.addrSize)})
	case dw.OpDerefSize:
		e.apply(1, Op{OpLoad, uint64(e.u8())})
	case dw.OpRegx:
		e.push(Op{OpRegister, e.uleb()})
		e.end(false)
	case dw.OpBregx:
		e.above(e.uleb(), e.sleb())
	case dw.OpFbreg:
		e.frameBase(e.sleb())
	case dw.OpCallFrameCFA:
		e.frame(0)
	case dw.OpStackValue:
		e.end(false)
	case dw.OpImplicitValue:
		e.implicit(e.bytes(e.uleb()))
	case dw.OpConvert, dw.OpGNUConvert:
		e.convert(e.uleb())
	case dw.OpRegvalType, dw.OpGNURegvalType:
		e.push(Op{OpRegister, e.uleb()})
		e.convert(e.uleb())
	case dw.OpConstType, dw.OpGNUConstType:
		e.uleb()
		e.push(Op{OpConst, e.sized(e.u8())})
	default:
		e.fail() // only known at the function's own entry, or elsewhere
	}
}

// moved returns where data at a linked address is. Per-CPU data has addresses below the
// kernel's, which are not moved.
func (p *placer) moved(addr uint64) uint64 {
	if addr>>63 == 0 {
		return addr
	}
	return addr + p.info.options.slide
}

// implicit handles a value that exists only in the expression.
func (e *expression) implicit(b []byte) {
	if len(b) == 0 || len(b) > 8 {
		e.fail()
		return
	}
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	e.push(Op{OpConst, v})
	e.end(false)
}

// frame pushes an address in the frame of the function around the code.
func (e *expression) frame(offset int64) {
	r, ok := e.placer.frames.cfa(e.placer.addr)
	if !ok {
		e.fail()
		return
	}
	e.above(r.reg, r.offset+offset)
}

// frameBase pushes an offset from the frame base. That is a location itself: the start of
// the frame, or a register.
func (e *expression) frameBase(offset int64) {
	c := cursor{b: e.placer.base}
	switch op := c.u8(); {
	case op == dw.OpCallFrameCFA:
		e.frame(offset)
	case op >= dw.OpReg0 && op < dw.OpReg0+dw.NumLit:
		e.above(uint64(op-dw.OpReg0), offset)
	case op >= dw.OpBreg0 && op < dw.OpBreg0+dw.NumLit:
		e.above(uint64(op-dw.OpBreg0), c.sleb()+offset)
	default:
		c.fail()
	}
	if c.bad || c.pos < len(c.b) {
		e.fail()
	}
}

// Encodings of base types, DW_ATE_*.
const (
	encodingSigned     = 5
	encodingSignedChar = 6
	encodingFloat      = 4
)

// convert converts the value to the integer type at off in the unit. 0 stands for an
// untyped value.
func (e *expression) convert(off uint64) {
	if off == 0 {
		e.apply(1, Op{OpExtend, 8})
		return
	}
	u := e.placer.unit
	c := u.cursor(u.off + off)
	a := u.abbrevs.find(c.uleb())
	if a == nil || a.tag != tagBaseType {
		e.fail()
		return
	}
	var size, encoding uint64
	for _, attr := range u.abbrevs.of(a) {
		switch v := u.read(&c, attr); attr.name {
		case attrByteSize:
			size = v.n
		case attrEncoding:
			encoding = v.n
		}
	}
	op := Op{OpExtend, size}
	if encoding == encodingSigned || encoding == encodingSignedChar {
		op.Code = OpExtendS
	}
	if encoding == encodingFloat || !slices.Contains([]uint64{1, 2, 4, 8}, size) {
		e.fail()
		return
	}
	e.apply(1, op)
}
