// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"math/bits"

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
	// Elsewhere are the words that are in no general register while others of the value are: a
	// floating-point register has them, or they are padding. Only System V splits values so.
	Elsewhere expr.Words
	// Ref says that the address of a copy is passed instead of the value.
	Ref bool
	// Apart says that trampolines (fentry) would read the wrong place: they count registers
	// and stack slots without gaps. The parameter can only be read by a kprobe.
	Apart bool
}

// Register returns the index of the integer argument register that has word i of the value. Of
// words that none has it returns that of another one.
func (l *Loc) Register(i int) int {
	if l.Elsewhere&(1<<i) != 0 {
		return l.Reg
	}
	return l.Reg + i - bits.OnesCount8(uint8(l.Elsewhere&(1<<i-1)))
}

// A callABI is the calling convention of an architecture.
type callABI struct {
	regs   int // number of integer argument registers
	floats int // number of floating-point argument registers
	// stackStart is the offset in bytes from the stack pointer at entry to the first stack
	// argument.
	stackStart int
	// aapcs says that AAPCS64 applies, not System V. ParamsOf lists the differences.
	aapcs bool
}

var abis = map[string]callABI{
	"amd64": {6, 8, 8, false}, // the return address is on top of the stack
	"arm64": {8, 8, 0, true},
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

// Why a value is not available. Kernel code hardly passes floats, programs do.
const (
	floatRegister = "is passed in floating-point registers, which the kernel hands to no program"
	unknownType   = "is of a type that is not known, nor how such values are passed"
	behindUnknown = "may be passed anywhere: how another value of this function is passed is not known"
)

// A locator assigns parameters to places, one after another.
type locator struct {
	abi                      callABI
	slot, reg, floats, stack int
	lost                     bool // nothing is known of where the next ones are
}

// ParamsOf assigns the parameters of a function to places. result is its result type, nil for
// void; a large result takes a register on amd64. Variadic arguments are left out. A
// parameter that cannot be read has Absent and Why set, one that can be read in part has Lost set.
//
// Aggregates of up to 16 bytes travel in one or two registers. The conventions (System V
// psABI 3.2.3, AAPCS64 6.8) differ in these points:
//
//	                              System V               AAPCS64
//	larger aggregates             a copy on the stack    the address of a copy
//	smaller, not aligned          the same               registers
//	floats and numbers in one     each word by itself    general registers
//	up to four equal floats       the same, if small     floating-point registers
//	long double                   a copy on the stack    a floating-point register
//	__int128                      any two registers      an even one and the next
//	no room in the registers      later ones may fit     all others of the kind on the stack
//	address of a large result     the first register     x8, which is no argument
func ParamsOf(params []btf.FuncParam, result btf.Type, arch string) []Param {
	l := locator{abi: abis[arch], lost: undescribed(result)}
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
		param := Param{Param: expr.Param{Name: p.Name, Type: p.Type}, Loc: Loc{Slot: l.slot, Slots: Words(p.Type), Reg: -1}}
		l.slot += param.Loc.Slots
		unknown := undescribed(p.Type)
		l.lost = l.lost || unknown
		if !l.lost {
			param.Lost = l.place(&param.Loc, p.Type)
		}
		param.Loc.Apart = param.Loc.Apart || hidden || l.lost
		switch {
		case param.Loc.Slots == 0:
			param.Absent, param.Why = true, "is empty and not passed at all"
		case unknown:
			param.Absent, param.Why = true, unknownType
		case l.lost:
			param.Absent, param.Why = true, behindUnknown
		case param.Lost != 0 && param.Loc.Reg < 0:
			param.Absent, param.Why = true, floatRegister
		case param.Loc.Ref:
			param.Base = &expr.Arg{T: &btf.Pointer{Target: p.Type}, Index: i, Width: 8}
		}
		out = append(out, param)
	}
	return out
}

// undescribed reports whether no type says how a value is passed. A struct that is only declared
// stands for it: C passes none.
func undescribed(t btf.Type) bool {
	if t == nil {
		return false
	}
	_, declared := btf.UnderlyingType(t).(*btf.Fwd)
	return declared
}

// place finds the place of the next parameter and marks that place as used. It returns which of
// its words floating-point registers have.
func (l *locator) place(loc *Loc, t btf.Type) (floats expr.Words) {
	switch {
	case loc.Slots == 0:
		loc.Apart = true
		return 0
	case l.abi.aapcs:
		return l.placeAAPCS64(loc, t)
	}
	return l.placeSystemV(loc, t)
}

func (l *locator) placeSystemV(loc *Loc, t btf.Type) (floats expr.Words) {
	words := classes(t)
	numbers, sse := in(words, classInteger), in(words, classSSE)
	if words == nil || in(words, classX87) > 0 || l.reg+numbers > l.abi.regs || l.floats+sse > l.abi.floats {
		loc.Apart = loc.Slots <= 2 && numbers < loc.Slots // trampolines look at the size only
		l.onStack(loc, loc.Slots, alignment(t))
		return 0
	}
	if numbers > 0 {
		loc.Reg = l.reg
	}
	loc.Apart = numbers < loc.Slots
	loc.Elsewhere = elsewhere(words)
	l.reg, l.floats = l.reg+numbers, l.floats+sse
	return inFloats(words)
}

func (l *locator) placeAAPCS64(loc *Loc, t btf.Type) (floats expr.Words) {
	need, align := loc.Slots, alignment(t)
	if n := homogeneous(t); n > 0 {
		loc.Apart = true
		if l.floats+n <= l.abi.floats {
			l.floats += n
			return 1<<need - 1
		}
		l.floats = l.abi.floats
		l.onStack(loc, need, align)
		return 0
	}
	if need > 2 {
		loc.Ref, loc.Apart, loc.Slots = true, true, 1
		need, align = 1, 1
	}
	reg := roundUp(l.reg, align)
	if reg+need > l.abi.regs {
		l.reg = l.abi.regs
		l.onStack(loc, need, align)
		return 0
	}
	loc.Reg, l.reg = reg, reg+need
	loc.Apart = loc.Apart || loc.Reg != loc.Slot
	return 0
}

// alignment returns the alignment of a parameter, in words.
func alignment(t btf.Type) int {
	if bounded(t) && aligned16(t) {
		return 2
	}
	return 1
}

// onStack puts a parameter on the stack. Stack slots have 8 bytes.
func (l *locator) onStack(loc *Loc, need, align int) {
	at := roundUp(l.stack-l.abi.stackStart, 8*align)
	loc.Stack = l.abi.stackStart + at
	loc.Apart = loc.Apart || loc.Stack != l.stack || l.abi.aapcs && at != 8*(loc.Slot-l.abi.regs)
	l.stack = loc.Stack + 8*need
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// inMemory reports whether a result of type t is in memory: it is too large, or too oddly aligned,
// for registers. The function writes it to an address that its caller passes.
func (abi *callABI) inMemory(t btf.Type) bool {
	switch {
	case t == nil || Words(t) == 0 || undescribed(t):
		return false
	case abi.aapcs:
		return homogeneous(t) == 0 && (Words(t) > 2 || !bounded(t))
	}
	return classes(t) == nil && !complexLong(t)
}

// DeclareResult tells scope where a function's result is if it is not in one register. It
// sets ReturnBase for a result in memory, ReturnWhy if the result cannot be read, and ReturnLost
// if some of its words cannot.
func DeclareResult(scope *expr.Scope, result btf.Type, arch string) {
	abi := abis[arch]
	lost := abi.resultInFloats(result)
	switch {
	case result == nil:
	case undescribed(result):
		scope.ReturnWhy = unknownType
	case lost != 0 && int(lost) == 1<<Words(result)-1:
		scope.ReturnWhy = floatRegister
	case abi.inMemory(result) && abi.aapcs:
		scope.ReturnWhy = "is in memory whose address is no longer known when the function returns"
	case abi.inMemory(result):
		scope.ReturnBase = &expr.Result{T: &btf.Pointer{Target: result}, Width: 8}
	default:
		scope.ReturnLost = lost
	}
}

// resultInFloats returns which words of a result floating-point registers have.
func (abi *callABI) resultInFloats(t btf.Type) expr.Words {
	switch {
	case t == nil:
		return 0
	case abi.aapcs && homogeneous(t) > 0, !abi.aapcs && complexLong(t):
		return 1<<Words(t) - 1
	case abi.aapcs:
		return 0
	}
	return inFloats(classes(t))
}

// ResultRegister returns the index of the result register that has word i of a result. Of words
// that none has it returns that of another one.
func ResultRegister(result btf.Type, arch string, i int) int {
	if result == nil || i == 0 || abis[arch].aapcs {
		return i
	}
	loc := Loc{Elsewhere: elsewhere(classes(result))}
	return loc.Register(i)
}
