// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Loc is where a parameter is passed.
type Loc struct {
	// Slot and Slots are the 64-bit words of a fentry program's context that
	// hold it.
	Slot, Slots int
	// Reg is the first integer argument register, or -1 if it is on the
	// stack, Stack bytes above what the stack pointer shows at entry.
	Reg   int
	Stack int
	// Ref says that the address of a copy is passed in its place.
	Ref bool
	// Apart says that the kernel's trampolines would look for it elsewhere:
	// they count registers and stack slots without gaps.
	Apart bool
}

// A callABI is how an architecture passes parameters.
type callABI struct {
	regs int // integer argument registers
	// stackStart lies between the stack pointer and the first stack argument
	// at entry.
	stackStart int
	// aapcs tells AAPCS64 from System V where they differ: see Locate.
	aapcs bool
}

var abis = map[string]callABI{
	"amd64": {6, 8, false}, // the return address is on top
	"arm64": {8, 0, true},
}

// word is the type of a register that nothing is known about.
var word = &btf.Int{Name: "long unsigned int", Size: 8}

// Word returns the type that stands for a register of which nothing is known: whether it
// holds a number at all, or one of how many bytes. Unknown tells it from others.
func Word() btf.Type { return word }

// Unknown reports whether t is Word.
func Unknown(t btf.Type) bool { return t == word }

// Untyped returns the parameters of a function of which no types are known: the registers.
func Untyped(arch string) []Param {
	params := make([]btf.FuncParam, abis[arch].regs)
	for i := range params {
		params[i].Type = word
	}
	return Locate(params, nil, arch)
}

// floatRegister says why a parameter cannot be had: no program is handed the
// floating-point registers.
const floatRegister = "is passed in floating-point registers, which the kernel hands to no program"

// A locator assigns parameters to places, one after another.
type locator struct {
	abi              callABI
	slot, reg, stack int
}

// Locate assigns the parameters of a function that returns result to their
// places: aggregates of up to 16 bytes travel in one or two registers. The two
// conventions differ in these:
//
//	                              System V               AAPCS64
//	larger aggregates             a copy on the stack    the address of a copy
//	smaller, not aligned          the same               registers
//	__int128                      any two registers      an even one and the next
//	no room in the registers      later ones may fit     all others on the stack
//	address of a large result     the first register     x8, which is no argument
func Locate(params []btf.FuncParam, result btf.Type, arch string) []Param {
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

// next assigns the next parameter to its place.
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
		loc.Apart = loc.Apart || need <= 2 // trampolines go by the size alone
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

// onStack puts a parameter on the stack, whose slots are of 8 bytes each.
func (l *locator) onStack(loc Loc, need, align int) Loc {
	at := roundUp(l.stack-l.abi.stackStart, 8*align)
	loc.Stack = l.abi.stackStart + at
	loc.Apart = loc.Apart || loc.Stack != l.stack || l.abi.aapcs && at != 8*(loc.Slot-l.abi.regs)
	l.stack = loc.Stack + 8*need
	return loc
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Words is how many 64-bit words a value takes, 0 for a struct without members.
func Words(t btf.Type) int {
	size, err := btf.Sizeof(t)
	if err != nil {
		return 1
	}
	return (size + 7) / 8
}

// inMemory reports whether a value of type t is in no register: a function writes
// such a result to where its caller says.
func (abi *callABI) inMemory(t btf.Type) bool {
	return t != nil && (Words(t) > 2 || !bounded(t) || !abi.aapcs && unaligned(t, 0))
}

// bounded reports whether a value of type t has no more parts than one of a kernel. Types of
// recordings and files may contain themselves.
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

// unaligned reports whether a number in a value at bit off of a packed struct is
// not aligned. Bitfields do not count, and of an array only its first element does:
// that is what gcc does; clang looks at all of them.
func unaligned(t btf.Type, off btf.Bits) bool {
	if a, ok := btf.UnderlyingType(t).(*btf.Array); ok && a.Nelems == 0 {
		return false // flexible
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

// DeclareResult says where a function's result is that is no number in a
// register.
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

// members returns the members of a struct or union, of an array its element.
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

// aligned16 reports whether a type's alignment is 16 bytes, which is that of
// __int128 and of what has such members, unless it is packed.
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

// inFloats reports whether a value is passed in floating-point registers: a
// number of that kind, or an aggregate of one to four of the same size (AAPCS64
// calls it homogeneous). No kernel uses such registers for its calls, but the
// types of one may speak of them.
func (abi *callABI) inFloats(t btf.Type) bool {
	if !bounded(t) {
		return false
	}
	n, size := floatsIn(t)
	return size > 0 && n >= 1 && n <= 4 && (abi.aapcs || Words(t) <= 2)
}

// floatsIn counts the floating-point numbers in a value and returns their size,
// 0 if they differ or there is anything else.
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
