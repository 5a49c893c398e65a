// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"math"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/qualifier"
	"github.com/ksnoop/ksnoop/layout"
)

// An access is a way to read a member.
type access uint8

const (
	accessRead   access = iota // with a helper, from any address
	accessDirect               // a load through a pointer whose type the verifier knows
	accessCast                 // the same, after a cast that tells the verifier the type
	accessRecord               // a load from the program's context
)

// load reads a number from memory into R0.
func (a *assembler) load(t *expr.Load, u use) {
	how := a.access(t)
	if (how == accessDirect || how == accessCast) && u == useNumber && findsPointer(t) {
		how = accessRead // a direct load would give a pointer, and the verifier allows no arithmetic on it
	}
	switch how {
	case accessRead:
		if f := extentOf(t, 0, t.Width, t.Bits); f.inTwo() {
			a.readTwo(t, f)
			return
		}
		a.value(t.Addr, useAny)
		a.probeRead(t.Off, t.Width, t.Space)
		a.loaded(t)
		return
	case accessRecord:
		a.emit(asm.LoadMem(asm.R0, a.ctx, int16(t.Off), sizeOf(t.Width)))
		a.loaded(t)
		return
	case accessDirect:
		a.value(t.Addr, useBase)
		a.checkPointer()
	case accessCast:
		a.value(t.Addr, useAny)
		a.checkPointer()
		target, _ := typedTarget(t.Addr.Type())
		id, _ := a.target.TypeID(target)
		a.saveContext()
		a.emit(asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Imm(asm.R2, int32(id)), callKfunc(a.target.kfuncs().Cast))
		a.restoreContext()
	}
	a.moveTo(asm.R2)
	a.emit(asm.LoadMem(asm.R0, asm.R2, int16(t.Off), sizeOf(t.Width)))
	if u != useBase {
		a.confirmZero(t)
	}
	a.loaded(t)
}

// readTwo reads a bitfield that spans 9 bytes into R0.
func (a *assembler) readTwo(t *expr.Load, f extent) {
	a.value(t.Addr, useAny)
	a.spill()
	a.probeRead(t.Off, 8, t.Space)
	a.emit(asm.RSh.Imm(asm.R0, int32(f.shift)))
	a.unspill(asm.R2)
	a.spill()
	a.emit(asm.Mov.Reg(asm.R0, asm.R2))
	a.probeRead(t.Off+8, 1, t.Space)
	a.join(f)
}

// loaded converts a zero-extended value in R0 to register form.
func (a *assembler) loaded(t *expr.Load) {
	if _, signed, _ := expr.Number(t.T); signed || t.Bits.Size != 0 {
		a.extract(t, 0, t.Width, t.Bits)
	}
}

// checkPointer tests the address in R0 before a direct load. On x86, the JIT adds code that
// tests whether the address is the kernel's and yields 0 if not; confirmZero after the load
// tells that from a value of 0. Pointers that the kernel vouches for, such as a
// tracepoint's, are not tested.
func (a *assembler) checkPointer() {
	if a.probe.Method == layout.MethodTPBTF {
		a.emit(asm.JEq.Imm(asm.R0, 0, a.failed())) // the verifier requires this test of a pointer that may be NULL
	}
	if a.testsFirst() {
		a.isAddress(asm.R0)
	}
}

func (a *assembler) testsFirst() bool {
	return a.arch.readsUser || a.probe.Method == layout.MethodTPBTF
}

// isAddress faults if reg is not a kernel address: NULL, anything in the lower half, error
// pointers. It does not find addresses that are merely unmapped; the load and confirmZero
// do. R5 is lost on arm64.
func (a *assembler) isAddress(reg asm.Register) {
	a.inKernel(reg)
	a.emit(asm.JGT.Imm(reg, -4096, a.failed()))
}

// inKernel faults if reg is not in the kernel's half of the addresses. arm64 ignores the highest byte of addresses of user space, which
// may have any, so that bit 63 does not tell. A load of user memory that faults in a program (PAN) is not given up but made again, for ever.
// Pointers of the kernel with a tag there (CONFIG_KASAN_HW_TAGS) count as faults: to test bit 55 alone leaves the verifier no bounds, and
// it looks at more states of large programs than it accepts. R5 is lost there.
func (a *assembler) inKernel(reg asm.Register) {
	if !a.arch.readsUser {
		a.emit(asm.JSGE.Imm(reg, 0, a.failed()))
		return
	}
	a.emit(asm.Mov.Imm(asm.R5, -1), asm.LSh.Imm(asm.R5, 55), asm.JLT.Reg(reg, asm.R5, a.failed()))
}

// moveTo moves R0 to reg. If R0 was just loaded, it changes that load instead.
func (a *assembler) moveTo(reg asm.Register) {
	if n := len(a.insns); n > 0 && a.pending == "" {
		last := &a.insns[n-1]
		if last.OpCode.Class() == asm.LdXClass && last.OpCode.Mode() == asm.MemMode && last.Dst == asm.R0 {
			last.Dst = reg
			return
		}
	}
	a.emit(asm.Mov.Reg(reg, asm.R0))
}

// confirmZero makes sure that a direct load at R2 + t.Off that gave 0 read a 0: a load that
// faults gives 0 too. Any other value pays only one jump.
func (a *assembler) confirmZero(t *expr.Load) {
	if a.again != "" {
		a.againUsed = true
		again, failed := a.again, a.fault
		if a.testsFirst() {
			a.emit(asm.JEq.Imm(asm.R0, 0, again))
			return
		}
		zero := a.label("zero")
		a.emit(asm.JEq.Imm(asm.R0, 0, zero))
		a.faulted = true
		a.later = append(a.later, func() {
			a.place(zero)
			a.say("is that 0 a fault?")
			a.exits.fault = failed
			a.isAddress(asm.R2)
			a.emit(asm.Ja.Label(again))
		})
		return
	}
	good := a.label("good")
	a.emit(asm.JNE.Imm(asm.R0, 0, good))
	if !a.testsFirst() {
		a.isAddress(asm.R2)
	}
	a.emit(asm.Mov.Reg(asm.R0, asm.R2))
	a.probeRead(t.Off, t.Width, t.Space)
	a.place(good)
}

var readers = map[expr.Space]asm.BuiltinFunc{
	expr.Kernel: asm.FnProbeReadKernel,
	expr.User:   asm.FnProbeReadUser,
}

var stringReaders = map[expr.Space]asm.BuiltinFunc{
	expr.Kernel: asm.FnProbeReadKernelStr,
	expr.User:   asm.FnProbeReadUserStr,
}

// probeRead reads width bytes at R0 + off with a helper, and leaves them in R0,
// zero-extended.
func (a *assembler) probeRead(off int64, width uint32, space expr.Space) {
	odd := width&(width-1) != 0
	a.emit(asm.Mov.Reg(asm.R3, asm.R0))
	if odd {
		a.emit(asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, stackScratch, asm.R0, asm.DWord))
	}
	a.addOffset(asm.R3, off)
	a.emit(asm.Mov.Imm(asm.R2, int32(width)))
	a.helper(readers[space], scratchAddress(asm.R1)...)
	a.emit(asm.JNE.Imm(asm.R0, 0, a.failed()))
	size := asm.DWord
	if !odd {
		size = sizeOf(width)
	}
	a.emit(asm.LoadMem(asm.R0, asm.RFP, stackScratch, size))
}

// addOffset adds a constant to reg. R2 is lost if the constant does not fit an immediate.
func (a *assembler) addOffset(reg asm.Register, off int64) {
	switch {
	case off == 0:
	case fitsImm(uint64(off)):
		a.emit(asm.Add.Imm(reg, int32(off)))
	default:
		a.constant(asm.R2, uint64(off))
		a.emit(asm.Add.Reg(reg, asm.R2))
	}
}

func sizeOf(width uint32) asm.Size {
	return map[uint32]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word, 8: asm.DWord}[width]
}

// access chooses how to read a member. A direct load requires that the verifier knows the
// pointer's type, or can be told, and that it allows a load at this offset.
func (a *assembler) access(t *expr.Load) access {
	if expr.InRecord(t) && t.Width&(t.Width-1) == 0 && t.Off%int64(t.Width) == 0 && t.Off <= math.MaxInt16 {
		return accessRecord
	}
	target, ok := typedTarget(t.Addr.Type())
	if !ok || t.Space != expr.Kernel || t.Width&(t.Width-1) != 0 || t.Off < 0 || t.Off > math.MaxInt16 {
		return accessRead
	}
	found := walk(target, uint32(t.Off), t.Width, 0)
	if found == nil || !sameToVerifier(found, t.T) {
		return accessRead
	}
	if t.Typed && a.typed(t.Addr) {
		return accessDirect
	}
	if a.target.TypeID != nil {
		if id, ok := a.target.TypeID(target); ok && id <= math.MaxInt32 && a.target.kfuncs().Cast != 0 {
			return accessCast
		}
	}
	return accessRead
}

// typed reports whether the verifier knows what the pointer points to.
func (a *assembler) typed(t expr.Term) bool {
	fentry := typesKnown(a.probe.Method) && !a.probe.InProgram
	switch t := t.(type) {
	case *expr.Passed:
		return a.typed(t.X)
	case *expr.Arg:
		return fentry && t.Off == 0 && paramKind(&a.probe.Params[t.Index]) == wordTyped
	case *expr.Result:
		return fentry && t.Off == 0 && contextKind(a.probe.Result) == wordTyped
	case *expr.Load:
		how := a.access(t)
		return t.Bits.Size == 0 && (how == accessDirect || how == accessCast) && loadsPointer(t)
	}
	return false
}

// loadsPointer reports whether the verifier takes the loaded value for a pointer.
func loadsPointer(t *expr.Load) bool {
	return structBehind(found(t)) != nil
}

// found returns the type of the member that the verifier finds for a direct load.
func found(t *expr.Load) btf.Type {
	target, _ := typedTarget(t.Addr.Type())
	return walk(target, uint32(t.Off), t.Width, 0)
}

// findsPointer reports whether the verifier finds a pointer for a direct load, whatever it points to: since
// Linux 6.17 it takes pointers to numbers and to void, too, for addresses of read-only memory.
func findsPointer(t *expr.Load) bool {
	member := found(t)
	if member == nil {
		return false
	}
	_, ok := btf.UnderlyingType(member).(*btf.Pointer)
	return ok
}

// sameToVerifier reports whether a load of want is still right if the verifier takes it for
// a load of found. In a union the verifier may pick another member, and if that one is a
// pointer, its value can only be dereferenced as such.
func sameToVerifier(found, want btf.Type) bool {
	behind := structBehind(found)
	if behind == nil {
		return true
	}
	target, ok := typedTarget(want)
	return ok && target == behind
}

// structBehind returns the struct or union that t points to, whatever its type tags say
// about the memory.
func structBehind(t btf.Type) btf.Type {
	if t == nil {
		return nil
	}
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return nil
	}
	switch s := btf.UnderlyingType(p.Target).(type) {
	case *btf.Struct, *btf.Union:
		return s
	}
	return nil
}

// typedTarget returns the struct or union that a pointer points to. It refuses pointers
// tagged __user or __percpu: their memory cannot simply be loaded from.
func typedTarget(t btf.Type) (btf.Type, bool) {
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok || qualifier.HasTag(p.Target, qualifier.All|qualifier.Typedef, "user", "percpu") {
		return nil, false
	}
	target := structBehind(p)
	return target, target != nil
}

// maxWalk bounds the recursion into nested structs of corrupt BTF.
const maxWalk = 32

// walk returns the type of the member that the verifier finds for a load of width bytes at
// off of t, or nil if it would refuse the load. It follows btf_struct_walk in
// kernel/bpf/btf.c of Linux 6.1 and 6.12, but refuses flexible arrays and scratch space in
// arrays, which the kernel may allow.
func walk(t btf.Type, off, width uint32, depth int) btf.Type {
	var members []btf.Member
	var size uint32
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members, size = t.Members, t.Size
	case *btf.Union:
		members, size = t.Members, t.Size
	}
	if off+width > size || depth > maxWalk {
		return nil
	}
	for _, m := range members {
		start := uint32(m.Offset) / 8
		if off+width <= start {
			return nil
		}
		if m.BitfieldSize != 0 {
			end := (uint32(m.Offset+m.BitfieldSize) + 7) / 8
			if off <= start && end <= off+width {
				return m.Type
			}
			continue
		}
		if off < start {
			return nil
		}
		if n, err := btf.Sizeof(m.Type); err != nil || off >= start+uint32(n) {
			continue
		}
		return walkMember(m.Type, off-start, width, depth)
	}
	return nil
}

// walkMember is walk for a member that covers the bytes.
func walkMember(t btf.Type, off, width uint32, depth int) btf.Type {
	for {
		arr, ok := btf.UnderlyingType(t).(*btf.Array)
		if !ok {
			break
		}
		elem, err := btf.Sizeof(arr.Type)
		if err != nil || elem == 0 {
			return nil
		}
		t, off = arr.Type, off%uint32(elem)
	}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union:
		return walk(u, off, width, depth+1)
	case *btf.Pointer:
		if off != 0 || width != 8 {
			return nil
		}
		return t
	}
	if size, err := btf.Sizeof(t); err != nil || off+width > uint32(size) {
		return nil
	}
	return t
}
