// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Param is a parameter of a traced function together with its place.
type Param struct {
	expr.Param
	Loc Loc
}

// A Loc says where a parameter is passed.
type Loc struct {
	// Slot is the index of the first 64-bit word that holds the parameter in the context of
	// a fentry program, and Slots the number of words; 0 for an empty struct, which is not
	// passed.
	Slot, Slots int
	// Reg is the index of the first integer argument register. It is -1 for a parameter on
	// the stack, which starts Stack bytes above the stack pointer at entry.
	Reg   int
	Stack int
	// Ref says that the address of a copy is passed instead of the value.
	Ref bool
	// Apart says that trampolines (fentry) would read the wrong place: they count registers
	// and stack slots without gaps. The parameter can only be read by a kprobe.
	Apart bool
}

// A callABI is the calling convention of an architecture.
type callABI struct {
	regs int // number of integer argument registers
	// stackStart is the offset in bytes from the stack pointer at entry to the first stack
	// argument.
	stackStart int
	// aapcs says that AAPCS64 applies, not System V. ParamsOf lists the differences.
	aapcs bool
}

var abis = map[string]callABI{
	"amd64": {6, 8, false}, // the return address is on top of the stack
	"arm64": {8, 0, true},
}

// word is the type of a register of unknown contents.
var word = &btf.Int{Name: "long unsigned int", Size: 8}

// Word returns the type of a register of which nothing is known: neither whether it holds a
// number nor how wide it is. Unknown recognises it.
func Word() btf.Type { return word }

// Unknown reports whether t is Word.
func Unknown(t btf.Type) bool { return t == word }

// Untyped returns parameters for a function without BTF: one for each argument register.
func Untyped(arch string) []Param {
	params := make([]btf.FuncParam, abis[arch].regs)
	for i := range params {
		params[i].Type = word
	}
	return ParamsOf(params, nil, arch)
}

// floatRegister says why a parameter is not available. Kernel code does not pass floats,
// but types in BTF may claim it.
const floatRegister = "is passed in floating-point registers, which the kernel hands to no program"

// A locator assigns parameters to places, one after another.
type locator struct {
	abi              callABI
	slot, reg, stack int
}

// ParamsOf assigns the parameters of a function to places. result is its result type, nil for
// void; a large result takes a register on amd64. Variadic arguments are left out. A
// parameter that cannot be read has Absent and Why set.
//
// Aggregates of up to 16 bytes travel in one or two registers. The conventions (System V
// psABI 3.2.3, AAPCS64 6.8) differ in these points:
//
//	                              System V               AAPCS64
//	larger aggregates             a copy on the stack    the address of a copy
//	smaller, not aligned          the same               registers
//	__int128                      any two registers      an even one and the next
//	no room in the registers      later ones may fit     all others on the stack
//	address of a large result     the first register     x8, which is no argument
func ParamsOf(params []btf.FuncParam, result btf.Type, arch string) []Param {
	l := locator{abi: abis[arch]}
	l.stack = l.abi.stackStart
	hidden := !l.abi.aapcs && l.abi.inMemory(result)
	if hidden {
		l.reg = 1
	}
	out := make([]Param, 0, len(params))
	for i, p := range params {
		if _, variadic := p.Type.(*btf.Void); variadic {
			break // "...": unnamed, no type
		}
		param := Param{Param: expr.Param{Name: p.Name, Type: p.Type}, Loc: l.next(p.Type)}
		param.Loc.Apart = param.Loc.Apart || hidden
		switch {
		case param.Loc.Slots == 0:
			param.Absent, param.Why = true, "is empty and not passed at all"
		case l.abi.inFloats(p.Type):
			param.Absent, param.Why = true, floatRegister
		case param.Loc.Ref:
			param.Base = &expr.Arg{T: &btf.Pointer{Target: p.Type}, Index: i, Width: 8}
		}
		out = append(out, param)
	}
	return out
}

// next returns the place of the next parameter and marks that place as used.
func (l *locator) next(t btf.Type) Loc {
	loc := Loc{Slot: l.slot, Slots: Words(t), Reg: -1}
	l.slot += loc.Slots
	if loc.Slots == 0 || l.abi.inFloats(t) {
		loc.Apart = true
		return loc
	}
	need, align := loc.Slots, 1
	if bounded(t) && aligned16(t) {
		align = 2
	}
	if l.abi.aapcs && need > 2 {
		loc.Ref, loc.Apart, loc.Slots = true, true, 1
		need, align = 1, 1
	}
	if !l.abi.aapcs && l.abi.inMemory(t) {
		loc.Apart = loc.Apart || need <= 2 // trampolines look at the size only
		return l.onStack(loc, need, align)
	}
	reg := l.reg
	if l.abi.aapcs {
		reg = roundUp(reg, align)
	}
	if reg+need > l.abi.regs {
		if l.abi.aapcs {
			l.reg = l.abi.regs
		}
		return l.onStack(loc, need, align)
	}
	loc.Reg, l.reg = reg, reg+need
	loc.Apart = loc.Apart || l.abi.aapcs && loc.Reg != loc.Slot
	return loc
}

// onStack puts a parameter on the stack. Stack slots have 8 bytes.
func (l *locator) onStack(loc Loc, need, align int) Loc {
	at := roundUp(l.stack-l.abi.stackStart, 8*align)
	loc.Stack = l.abi.stackStart + at
	loc.Apart = loc.Apart || loc.Stack != l.stack || l.abi.aapcs && at != 8*(loc.Slot-l.abi.regs)
	l.stack = loc.Stack + 8*need
	return loc
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Words returns how many 64-bit words a value takes: 0 for a struct without members, 1 for
// a type of unknown size.
func Words(t btf.Type) int {
	size, err := btf.Sizeof(t)
	if err != nil {
		return 1
	}
	return (size + 7) / 8
}

// inMemory reports whether a value of type t is too large or too oddly aligned for
// registers. A function writes such a result to an address that its caller passes.
func (abi *callABI) inMemory(t btf.Type) bool {
	return t != nil && (Words(t) > 2 || !bounded(t) || !abi.aapcs && unaligned(t, 0))
}

// bounded reports whether t has a sane number of parts. Types from files and recordings may
// contain themselves, which would make the recursions below endless.
func bounded(t btf.Type) bool {
	const depth, parts = 32, 4096
	left := parts
	var walk func(btf.Type, int) bool
	walk = func(t btf.Type, below int) bool {
		if left--; left < 0 || below == 0 {
			return false
		}
		list, _ := members(t)
		for _, m := range list {
			if !walk(m.Type, below-1) {
				return false
			}
		}
		return true
	}
	return walk(t, depth)
}

// unaligned reports whether a packed struct, placed at bit off, has a number that is not
// naturally aligned; System V then passes it in memory. As in gcc, bitfields do not count,
// and only the first element of an array does. clang looks at all elements.
func unaligned(t btf.Type, off btf.Bits) bool {
	if a, ok := btf.UnderlyingType(t).(*btf.Array); ok && a.Nelems == 0 {
		return false // flexible array: takes no room
	}
	list, aggregate := members(t)
	if !aggregate {
		size, err := btf.Sizeof(t)
		return err == nil && size > 0 && off%btf.Bits(8*size) != 0
	}
	return slices.ContainsFunc(list, func(m btf.Member) bool {
		return m.BitfieldSize == 0 && unaligned(m.Type, off+m.Offset)
	})
}

// DeclareResult tells scope where a function's result is if it is not in one register. It
// sets ReturnBase for a result in memory, or ReturnWhy if the result cannot be read.
func DeclareResult(scope *expr.Scope, result btf.Type, arch string) {
	abi := abis[arch]
	switch {
	case result == nil:
	case abi.inFloats(result):
		scope.ReturnWhy = floatRegister
	case abi.inMemory(result) && abi.aapcs:
		scope.ReturnWhy = "is in memory whose address is no longer known when the function returns"
	case abi.inMemory(result):
		scope.ReturnBase = &expr.Result{T: &btf.Pointer{Target: result}, Width: 8}
	}
}

// members returns the members of a struct or union; for an array, one element.
func members(t btf.Type) ([]btf.Member, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members, true
	case *btf.Union:
		return t.Members, true
	case *btf.Array:
		return []btf.Member{{Type: t.Type}}, true
	}
	return nil, false
}

// aligned16 reports whether t is aligned to 16 bytes. This holds for __int128 and for
// aggregates that contain one, unless they are packed.
func aligned16(t btf.Type) bool {
	size, err := btf.Sizeof(t)
	if err != nil || size == 0 || size%16 != 0 {
		return false
	}
	list, ok := members(t)
	if !ok {
		_, integer := btf.UnderlyingType(t).(*btf.Int)
		return integer
	}
	for _, m := range list {
		if m.Offset%128 == 0 && aligned16(m.Type) {
			return true
		}
	}
	return false
}

// inFloats reports whether a value is passed in floating-point registers: a float, or an
// aggregate of one to four floats of the same size (a homogeneous aggregate in AAPCS64).
// Kernel functions pass none, but BTF may describe some.
func (abi *callABI) inFloats(t btf.Type) bool {
	if !bounded(t) {
		return false
	}
	n, size := floatsIn(t)
	return size > 0 && n >= 1 && n <= 4 && (abi.aapcs || Words(t) <= 2)
}

// floatsIn counts the floats in a value and returns their common size in bytes. The size is
// 0 if they differ or if the value contains anything else.
func floatsIn(t btf.Type) (n int, size uint32) {
	if f, ok := btf.UnderlyingType(t).(*btf.Float); ok {
		return 1, f.Size
	}
	list, _ := members(t)
	for _, m := range list {
		k, s := floatsIn(m.Type)
		if s == 0 || size != 0 && s != size {
			return 0, 0
		}
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Union:
			n = max(n, k)
		case *btf.Array:
			n = int(u.Nelems) * k
		default:
			n += k
		}
		size = s
	}
	return n, size
}
