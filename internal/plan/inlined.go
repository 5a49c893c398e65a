// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// An Inlined is a place where the compiler inlined a function.
type Inlined struct {
	Name   string          // name of the inlined function
	Into   kernel.Function // the function that contains its code
	Offset uint64          // offset of its first instruction in that function, in bytes
	Params []debuginfo.Param
}

// Inlinings finds places where functions were inlined. Debug info implements it.
type Inlinings interface {
	// Named returns the inlined functions whose names match a glob, in these modules; "" is
	// vmlinux.
	Named(pattern string, modules []string) ([]Inlined, error)
	// Of returns the inlined copies of functions that also have code of their own.
	Of(funcs []kernel.Function) ([]Inlined, error)
}

// inlinedLabel returns the name that views give to an inlined function.
func (h *Hook) inlinedLabel(into kernel.Function) string {
	return h.Name + " [inlined into " + into.Name + "+0x" + strconv.FormatUint(h.Offset, 16) + "]"
}

// Absent returns the parameters that a SPEC without items would show but whose values are
// nowhere.
func (p *Probe) Absent() []string {
	var names []string
	for i, param := range p.Params {
		if !param.Absent || param.Why != "" || p.Spec.Parens {
			continue
		}
		name := param.Name
		if name == "" {
			name = "$arg" + strconv.Itoa(i+1)
		}
		names = append(names, name)
	}
	return names
}

// declareInlined declares the parameters of an inlined function. Debug info says where the
// compiler has their values when the function's code begins.
func (p *Probe) declareInlined(types expr.Types, arch string) {
	for _, param := range p.Hook.Params {
		declared := expr.Param{Name: param.Name, Type: inlinedType(types, param.Type)}
		placed(&declared, param.Place, arch)
		p.addStored(declared)
	}
}

// inlinedType returns the BTF type that debug info spells. If several types have the name,
// the size decides; a type of another size is not taken.
func inlinedType(types expr.Types, t debuginfo.Type) btf.Type {
	return scalar(declared(sizedTypes{types, t}, t.Name, false), kernel.Field{Decl: t.Name, Size: t.Size, Signed: t.Signed}, false)
}

// sizedTypes is Types without those whose size differs from what debug info says.
type sizedTypes struct {
	expr.Types
	wanted debuginfo.Type
}

func (s sizedTypes) TypesByName(spelling string) ([]btf.Type, error) {
	found, err := s.Types.TypesByName(spelling)
	if s.wanted.Target == 0 {
		return found, err
	}
	return slices.DeleteFunc(slices.Clone(found), func(t btf.Type) bool {
		size, err := btf.Sizeof(t)
		return err == nil && size != int(s.wanted.Target)
	}), err
}

// placed sets where a parameter is, or that it is nowhere.
func placed(param *expr.Param, at debuginfo.Place, arch string) {
	e := evaluation{arch: arch}
	for _, op := range at.Ops[:min(len(at.Ops), maxOps+1)] {
		e.step(op)
	}
	_, _, number := expr.Number(param.Type)
	switch {
	case e.bad || len(e.stack) != 1 || len(at.Ops) > maxOps:
		param.Absent = true
	case at.Memory:
		param.Base = e.stack[0]
	case len(at.Ops) == 1 && at.Ops[0].Code == debuginfo.OpRegister:
		load := e.stack[0].(*expr.Load)
		param.Base, param.Off = load.Addr, load.Off
	case number:
		param.Value = &expr.Convert{T: param.Type, X: e.stack[0]}
	default:
		param.Absent = true // an aggregate cannot be computed
	}
}

// An evaluation turns DWARF operations that compute a value into terms.
type evaluation struct {
	arch  string
	stack []expr.Term
	bad   bool
}

// signedWord is layout.Word() with a sign.
var signedWord = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}

// binaries maps operations to operators of two operands. OpSar has a signed left operand.
var binaries = map[debuginfo.OpCode]expr.Op{debuginfo.OpAdd: expr.OpAdd, debuginfo.OpSub: expr.OpSub, debuginfo.OpMul: expr.OpMul,
	debuginfo.OpAnd: expr.OpBitAnd, debuginfo.OpOr: expr.OpBitOr, debuginfo.OpXor: expr.OpXor,
	debuginfo.OpShl: expr.OpShl, debuginfo.OpShr: expr.OpShr, debuginfo.OpSar: expr.OpShr}

// maxOps bounds the operations of one value: a damaged recording may have any number.
const maxOps = 64

// step turns one operation into a term on the stack. Anything that terms cannot express
// makes the parameter absent.
func (e *evaluation) step(op debuginfo.Op) {
	switch op.Code {
	case debuginfo.OpConst:
		e.push(&expr.Const{T: layout.Word(), V: op.N})
		return
	case debuginfo.OpRegister:
		e.push(e.register(op.N))
		return
	}
	x := e.pop()
	binary, two := binaries[op.Code]
	switch {
	case e.bad:
	case two:
		t := btf.Type(layout.Word())
		if op.Code == debuginfo.OpSar {
			t = signedWord
		}
		y := x
		if x = e.pop(); !e.bad {
			e.push(unsigned(&expr.BinaryTerm{T: t, Op: binary, X: converted(x, t), Y: y}))
		}
	case op.Code == debuginfo.OpNeg:
		e.push(&expr.UnaryTerm{T: layout.Word(), Op: expr.OpNeg, X: x})
	case op.Code == debuginfo.OpNot:
		e.push(&expr.UnaryTerm{T: layout.Word(), Op: expr.OpCompl, X: x})
	case op.Code == debuginfo.OpLoad && integer(op.N, false) != nil:
		e.push(converted(&expr.Load{T: integer(op.N, false), Addr: x, Width: uint32(op.N)}, layout.Word()))
	case op.Code == debuginfo.OpExtend && integer(op.N, false) != nil:
		e.push(converted(converted(x, integer(op.N, false)), layout.Word()))
	case op.Code == debuginfo.OpExtendS && integer(op.N, true) != nil:
		e.push(converted(converted(x, integer(op.N, true)), layout.Word()))
	default:
		e.bad = true
	}
}

func (e *evaluation) push(t expr.Term) {
	e.bad = e.bad || t == nil || len(e.stack) == maxOps
	e.stack = append(e.stack, t)
}

// pop returns the topmost term. A stack that is empty means damaged debug info.
func (e *evaluation) pop() expr.Term {
	n := len(e.stack)
	if n == 0 {
		e.bad = true
		return nil
	}
	t := e.stack[n-1]
	e.stack = e.stack[:n-1]
	return t
}

// register returns a term for the value of a register.
func (e *evaluation) register(n uint64) expr.Term {
	i, ok := ptregs.DWARF(e.arch, n)
	if !ok {
		e.bad = true
		return nil
	}
	return &expr.Load{T: layout.Word(), Addr: record, Off: int64(8 * i), Width: 8}
}

// integer returns an integer type of this size and sign.
func integer(size uint64, signed bool) btf.Type {
	i := &btf.Int{Size: uint32(size)}
	switch {
	case !slices.Contains([]uint64{1, 2, 4, 8}, size):
		return nil
	case signed:
		i.Encoding = btf.Signed
	}
	return i
}

// converted wraps a term in a conversion, unless it has the type already.
func converted(t expr.Term, to btf.Type) expr.Term {
	if t.Type() == to {
		return t
	}
	return &expr.Convert{T: to, X: t}
}

func unsigned(t expr.Term) expr.Term { return converted(t, layout.Word()) }
