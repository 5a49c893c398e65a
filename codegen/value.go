// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A use says what a value is needed for. This limits how it may be loaded: the verifier
// allows no arithmetic on a pointer whose type it knows.
type use uint8

const (
	useAny    use = iota // compare with a number, or store
	useBase              // dereference
	useNumber            // compute with
)

// value computes a scalar term into R0, in register form. A fault jumps to a.fault. R1 to
// R5 are lost, except for the context.
func (a *assembler) value(t expr.Term, u use) {
	switch t := t.(type) {
	case *expr.Const:
		a.constant(asm.R0, t.V)
	case *expr.Arg:
		if f := extentOf(t, t.Off, t.Width, t.Bits); f.inTwo() {
			a.inTwoWords(f, int(t.Off/8), func(i int) { a.word(&a.probe.Params[t.Index], i) })
			return
		}
		a.arg(t, u)
		a.extract(t, t.Off, t.Width, t.Bits)
	case *expr.Result:
		if f := extentOf(t, t.Off, t.Width, t.Bits); f.inTwo() {
			a.inTwoWords(f, int(t.Off/8), a.resultWord)
			return
		}
		a.result(t, u)
		a.extract(t, t.Off, t.Width, t.Bits)
	case *expr.ContextTerm:
		a.context(t)
	case *expr.Kept:
		a.kept(t)
	case *expr.Passed:
		a.value(t.X, u)
	case *expr.Load:
		a.load(t, u)
	case *expr.Convert:
		a.convert(t, u)
	case *expr.UnaryTerm:
		a.unary(t)
	case *expr.BinaryTerm:
		if t.Op.Comparison() {
			a.truth(t)
			return
		}
		a.binary(t)
	case *expr.Logic, *expr.Match:
		a.truth(t)
	case *expr.Swap:
		a.value(t.X, useNumber)
		a.emit(asm.HostTo(asm.BE, asm.R0, map[uint32]asm.Size{2: asm.Half, 4: asm.Word}[t.Size]))
	default:
		panic(fmt.Sprintf("codegen: %T has no value", t))
	}
}

// arg loads the word that holds a parameter. A helper must read it in two cases: the kernel
// would give a typed pointer but a number is needed; or the kernel refuses the word because
// it does not know what the pointer points to.
func (a *assembler) arg(t *expr.Arg, u use) {
	p := &a.probe.Params[t.Index]
	if typesKnown(a.probe.Method) {
		switch kind := paramKind(p); {
		case (kind == wordRefused || kind == wordTyped && u == useNumber) && a.probe.Method == layout.MethodTPBTF:
			a.emit(asm.Mov.Reg(asm.R0, a.ctx)) // bpf_get_func_arg is not available, but the context can be read as memory
			a.probeRead(int64(8*p.Loc.Slot), 8, expr.Kernel)
			return
		case kind == wordRefused, kind == wordTyped && u == useNumber:
			a.funcArg(p.Loc.Slot)
			return
		}
	}
	a.word(p, int(t.Off/8))
}

// result loads the part of the return value that t is.
func (a *assembler) result(t *expr.Result, u use) {
	if a.probe.Method == layout.MethodFentry || a.probe.Method == layout.MethodFsession {
		switch kind := contextKind(a.probe.Result); {
		case kind == wordRefused, kind == wordTyped && u == useNumber:
			a.funcResult()
			return
		}
	}
	a.resultWord(int(t.Off / 8))
}

// funcArg and funcResult ask the kernel for a word that a trampoline program may not load
// from its context.
func (a *assembler) funcArg(slot int) {
	a.emit(asm.Mov.Imm(asm.R2, int32(slot)))
	a.helper2(asm.FnGetFuncArg, asm.R3)
}

func (a *assembler) funcResult() { a.helper2(asm.FnGetFuncRet, asm.R2) }

// helper2 calls a helper that takes the context and, in reg, the address for its result. It
// loads the result into R0.
func (a *assembler) helper2(fn asm.BuiltinFunc, reg asm.Register) {
	a.emit(scratchAddress(reg)...)
	if a.ctx != asm.R1 {
		a.helper(fn, asm.Mov.Reg(asm.R1, a.ctx))
	} else {
		a.helper(fn)
	}
	a.emit(asm.LoadMem(asm.R0, asm.RFP, stackScratch, asm.DWord))
}

// An extent is the place of a number in one word, or in two.
type extent struct {
	shift, size uint32 // in bits
	signed      bool
}

// extentOf returns the extent of a number of width bytes, or of a bitfield in it, at byte
// off of an image in words.
func extentOf(t expr.Term, off, width uint32, b expr.Bits) extent {
	_, signed, _ := expr.Number(t.Type())
	f := extent{8 * (off % 8), 8 * width, signed}
	if b.Size != 0 {
		f.shift, f.size = f.shift+uint32(b.Shift), uint32(b.Size)
	}
	return f
}

// inTwo reports whether the number continues in the next word. Packed structs in registers
// can cause that.
func (f extent) inTwo() bool { return f.shift+f.size > 64 }

// inTwoWords combines a number from word i and the next one. load computes a word into R0.
func (a *assembler) inTwoWords(f extent, i int, load func(i int)) {
	load(i)
	a.emit(asm.RSh.Imm(asm.R0, int32(f.shift)))
	a.spill()
	load(i + 1)
	a.join(f)
}

// join combines the upper part of a number, in R0, with the spilled lower part.
func (a *assembler) join(f extent) {
	a.emit(asm.LSh.Imm(asm.R0, int32(64-f.shift)))
	a.unspill(asm.R2)
	a.emit(asm.Or.Reg(asm.R0, asm.R2))
	a.field(0, f.size, f.signed)
}

// extract brings a number, or a bitfield, in R0 into register form.
func (a *assembler) extract(t expr.Term, off, width uint32, b expr.Bits) {
	f := extentOf(t, off, width, b)
	if f.shift == 0 && b.Size == 0 {
		size, signed, _ := expr.Number(t.Type())
		a.extend(size, signed)
		return
	}
	a.field(f.shift, f.size, f.signed)
}

// field extracts size bits of R0 from bit shift up.
func (a *assembler) field(shift, size uint32, signed bool) {
	if left := 64 - shift - size; left != 0 {
		a.emit(asm.LSh.Imm(asm.R0, int32(left)))
	}
	if right := 64 - size; right != 0 {
		op := asm.RSh
		if signed {
			op = asm.ArSh
		}
		a.emit(op.Imm(asm.R0, int32(right)))
	}
}

// extend brings the low size bytes of R0 into register form.
func (a *assembler) extend(size int, signed bool) {
	switch {
	case size == 8:
	case signed:
		a.field(0, uint32(8*size), true)
	case size == 4:
		a.emit(asm.Mov.Reg32(asm.R0, asm.R0))
	default:
		a.emit(asm.And.Imm(asm.R0, int32(1)<<(8*size)-1))
	}
}

// context loads a context value. Those that cost a helper are read only where an item
// needs them.
func (a *assembler) context(t *expr.ContextTerm) {
	switch t.Var {
	case expr.ContextPID, expr.ContextTID:
		a.ids()
		if t.Var == expr.ContextPID {
			a.emit(asm.RSh.Imm(asm.R0, 32))
		} else {
			a.extend(4, false)
		}
	case expr.ContextUID:
		a.helper(asm.FnGetCurrentUidGid)
		a.extend(4, false)
	case expr.ContextCPU:
		a.helper(asm.FnGetSmpProcessorId)
		a.extend(4, false)
	case expr.ContextCgroup:
		a.helper(asm.FnGetCurrentCgroupId)
	case expr.ContextTask:
		a.helper(asm.FnGetCurrentTask)
	case expr.ContextFunc:
		a.saveContext()
		a.probeID()
		a.emit(asm.Mov.Reg(asm.R0, asm.R2))
		a.restoreContext()
	case expr.ContextStack, expr.ContextUserStack:
		a.stackNumber(t.Var == expr.ContextUserStack)
	case expr.ContextRecord:
		a.emit(asm.Mov.Reg(asm.R0, a.ctx))
	case expr.ContextTime:
		a.helper(asm.FnKtimeGetNs)
	case expr.ContextDuration:
		a.helper(asm.FnKtimeGetNs)
		switch {
		case a.inCookie:
			a.emit(asm.LoadMem(asm.R2, asm.RFP, stackCookie, asm.DWord))
		case a.probe.Role != layout.RoleCall:
			a.emit(asm.LoadMem(asm.R2, asm.RFP, stackEntry, asm.DWord))
		default:
			a.emit(asm.LoadMem(asm.R2, a.frame, int16(bpf.FrameEntry-a.base), asm.DWord))
		}
		a.emit(asm.Sub.Reg(asm.R0, asm.R2))
	default:
		panic(fmt.Sprintf("codegen: no context value %d", t.Var))
	}
}

// stackNumber takes a stack and sets R0 to its number.
func (a *assembler) stackNumber(user bool) {
	a.reads = true
	caller := !user && a.target.Arch == "arm64" && a.phase == expr.AtEntry && a.probe.IsCall() && !a.probe.Method.Trampoline()
	if !user && !caller && !a.target.sparing {
		a.shortStack()
		return
	}
	a.anyStack(user, caller, false)
}

// anyStack is stackNumber for stacks of any length. long says that it is known not to be short.
func (a *assembler) anyStack(user, caller, long bool) {
	a.saveContext()
	a.emit(call(bpf.FuncStackBuffer))
	a.restoreContext()
	a.emit(asm.JEq.Imm(asm.R0, 0, a.failed()))
	a.spill()
	a.emit(asm.Mov.Reg(asm.R2, asm.R0))
	size, flags := int32(bpf.KeptStackSize), int32(0)
	switch {
	case user:
		flags = userStack
	case caller:
		size -= 8
		a.emit(asm.Add.Imm(asm.R2, 8))
	}
	whole := a.label("whole_stack")
	a.passContext()
	if !long {
		a.emit(asm.Mov.Imm(asm.R3, shortStack), asm.Mov.Imm(asm.R4, flags), asm.FnGetStack.Call(), asm.JNE.Imm(asm.R0, shortStack, whole))
		a.restoreContext()
		a.passContext()
		a.unspill(asm.R2)
		a.depth++
		if caller {
			a.emit(asm.Add.Imm(asm.R2, 8))
		}
	}
	a.emit(asm.Mov.Imm(asm.R3, size), asm.Mov.Imm(asm.R4, flags), asm.FnGetStack.Call())
	a.place(whole)
	a.unspill(asm.R1)
	if caller {
		a.addCaller()
	}
	a.emit(asm.Mov.Reg(asm.R2, asm.R0), asm.Mov.Imm(asm.R3, flag(user)), call(bpf.FuncKeepStack))
	a.restoreContext()
	a.emit(asm.JEq.Imm(asm.R0, 0, a.failed()))
}

const (
	userStack = 1 << 8 // BPF_F_USER_STACK
	// shortStack is how many bytes of a stack are asked for at first: most stacks are shorter, and the
	// kernel clears what is left of the buffer.
	shortStack = 8 * 32
)

// shortStack is stackNumber for stacks of the kernel. It takes the stack into the program's own frame, so
// no buffer is needed, and looks in the first place for it. Calls are made only for long and for new
// stacks.
func (a *assembler) shortStack() {
	const size, hash, found = asm.R0, asm.R2, asm.R0
	depth := a.depth
	a.depth += shortStack/8 + 3
	top := stackSpill - 8*(depth-1)
	address, keptHash, keptSize, index := int16(top-shortStack), int16(top-shortStack-8), int16(top-shortStack-16), int16(top-shortStack-24)
	long, other, none, done := a.label("long_stack"), a.label("other_stack"), a.label("no_stack"), a.label("stack_taken")
	a.saveContext()
	a.passContext()
	a.emit(asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(address)), asm.Mov.Imm(asm.R3, shortStack), asm.Mov.Imm(asm.R4, 0),
		asm.FnGetStack.Call(), asm.JSLE.Imm(size, 0, none), asm.JEq.Imm(size, shortStack, long))
	a.emit(bpf.AppendStackHash(nil, address, shortStack/8, a.label("hashed"))...)
	a.emit(asm.StoreMem(asm.RFP, keptHash, hash, asm.DWord), asm.StoreMem(asm.RFP, keptSize, size, asm.DWord))
	a.emit(bpf.AppendStackPlace(nil, index)...)
	a.emit(asm.JEq.Imm(found, 0, other), asm.LoadMem(asm.R1, asm.RFP, keptHash, asm.DWord), asm.LoadMem(asm.R2, asm.RFP, keptSize, asm.DWord))
	a.emit(bpf.AppendSameStack(nil, other)...)
	a.emit(asm.LoadMem(asm.R0, asm.RFP, index, asm.Word), asm.Add.Imm(asm.R0, 1))
	a.place(done)
	a.restoreContext()
	a.depth = depth
	ctx, fault, source := a.ctx, a.failed(), a.source
	a.later = append(a.later, func() {
		a.ctx, a.source = ctx, source
		a.place(other)
		a.emit(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(address)), asm.LoadMem(asm.R2, asm.RFP, keptHash, asm.DWord),
			asm.LoadMem(asm.R3, asm.RFP, keptSize, asm.DWord), asm.RSh.Imm(asm.R3, 3), asm.Mov.Imm(asm.R4, 0),
			call(bpf.FuncNewStack), asm.JNE.Imm(asm.R0, 0, done))
		a.place(none)
		a.restoreContext()
		a.emit(asm.Ja.Label(fault))
		a.place(long)
		before, deep := a.exits, a.depth
		a.fault, a.depth = fault, depth
		a.restoreContext()
		a.anyStack(false, false, true)
		a.emit(asm.Ja.Label(done))
		a.exits, a.depth = before, deep
	})
}

// addCaller adds the caller of a function to the stack of R0 bytes that begins at R1 + 8. At the entry
// of a function of arm64 the kernel does not see it: it is in the link register, of the context.
func (a *assembler) addCaller() {
	const link = 30
	none := a.label("no_stack")
	a.emit(asm.JSLE.Imm(asm.R0, 0, none))
	a.emit(asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord), asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord))
	if a.ctx == asm.R1 {
		a.emit(asm.LoadMem(asm.R3, asm.RFP, stackContext, asm.DWord), asm.LoadMem(asm.R2, asm.R3, 8*link, asm.DWord))
	} else {
		a.emit(asm.LoadMem(asm.R2, a.ctx, 8*link, asm.DWord))
	}
	a.emit(asm.StoreMem(asm.R1, 8, asm.R2, asm.DWord), asm.Add.Imm(asm.R0, 8))
	a.place(none)
}

// ids sets R0 to the process and thread that make the call: tgid << 32 | pid.
func (a *assembler) ids() {
	if !a.target.Namespace {
		a.helper(asm.FnGetCurrentPidTgid)
		return
	}
	a.reads = true
	a.saveContext()
	a.emit(call(bpf.FuncIDs))
	a.restoreContext()
}

// kept loads a value that entry computed. If that faulted, so does this.
func (a *assembler) kept(t *expr.Kept) {
	if a.inCookie {
		a.fromCookie(t.Slot)
		return
	}
	s := &a.probe.Return.Record.Slots[t.Slot]
	if expr.CanFault(s.Term) {
		a.unlessFaulted(t.Slot)
	}
	a.emit(asm.LoadMem(asm.R0, a.frame, int16(bpf.FrameData+int(s.Off)-a.base), asm.DWord))
}

// unlessFaulted is a fault if entry could not read what belongs into a slot.
func (a *assembler) unlessFaulted(slot int) {
	bit := uint64(1) << slot
	a.emit(asm.LoadMem(asm.R0, a.frame, int16(bpf.FrameFaults-a.base), asm.DWord))
	if fitsImm(bit) {
		a.emit(asm.JSet.Imm(asm.R0, int32(bit), a.failed()))
	} else {
		a.constant(asm.R2, bit)
		a.emit(asm.JSet.Reg(asm.R0, asm.R2, a.failed()))
	}
}

// convert brings a value into the register form of another type.
func (a *assembler) convert(t *expr.Convert, u use) {
	from, fromSigned, _ := expr.Number(t.X.Type())
	size, signed, _ := expr.Number(t.T)
	if size == 8 || size == from && signed == fromSigned || size > from && (signed || !fromSigned) {
		a.value(t.X, u) // the register form is the same
		return
	}
	a.value(t.X, useNumber)
	a.extend(size, signed)
}

// unary computes -x, ~x or !x.
func (a *assembler) unary(t *expr.UnaryTerm) {
	if t.Op == expr.OpNot {
		a.truth(t)
		return
	}
	a.value(t.X, useNumber)
	size, signed, _ := expr.Number(t.T)
	switch t.Op {
	case expr.OpCompl:
		a.emit(asm.Xor.Imm(asm.R0, -1))
	case expr.OpNeg:
		a.emit(asm.Neg.Imm(asm.R0, 0))
	default:
		panic("codegen: no unary operator " + t.Op.String())
	}
	a.extend(size, signed)
}

// operands computes x into R0 and y into R2. If y is a constant that fits an immediate, it
// is returned instead.
func (a *assembler) operands(x, y expr.Term, u use) (imm int32, isImm bool) {
	if k, ok := y.(*expr.Const); ok {
		a.value(x, u)
		if fitsImm(k.V) {
			return int32(k.V), true
		}
		a.constant(asm.R2, k.V)
		return 0, false
	}
	a.value(x, u)
	a.spill()
	a.value(y, u)
	a.emit(asm.Mov.Reg(asm.R2, asm.R0))
	a.unspill(asm.R0)
	return 0, false
}

// alu maps operators to their BPF instruction. The caller extends the result.
var alu = map[expr.Op]asm.ALUOp{
	expr.OpBitOr: asm.Or, expr.OpXor: asm.Xor, expr.OpBitAnd: asm.And,
	expr.OpAdd: asm.Add, expr.OpSub: asm.Sub, expr.OpMul: asm.Mul,
}

// binary computes an arithmetic or bitwise operator, and extends the result to its type.
func (a *assembler) binary(t *expr.BinaryTerm) {
	size, signed, _ := expr.Number(t.T)
	imm, isImm := a.operands(t.X, t.Y, useNumber)
	op, plain := alu[t.Op]
	switch {
	case plain && isImm:
		a.emit(op.Imm(asm.R0, imm))
	case plain:
		a.emit(op.Reg(asm.R0, asm.R2))
	case t.Op == expr.OpShl || t.Op == expr.OpShr:
		a.shift(t.Op, size, signed, imm, isImm)
	case t.Op == expr.OpDiv || t.Op == expr.OpMod:
		if isImm {
			a.emit(asm.Mov.Imm(asm.R2, imm))
		}
		a.divide(t.Op, signed)
	default:
		panic("codegen: no operator " + t.Op.String())
	}
	a.extend(size, signed)
}

// shift computes x << y or x >> y. BPF takes counts modulo 64, the language modulo the
// operand's width.
func (a *assembler) shift(op expr.Op, size int, signed bool, imm int32, isImm bool) {
	alu := asm.LSh
	if op == expr.OpShr {
		alu = asm.RSh
		if signed {
			alu = asm.ArSh
		}
	}
	mask := int32(8*size - 1)
	if isImm {
		a.emit(alu.Imm(asm.R0, imm&mask))
		return
	}
	a.emit(asm.And.Imm(asm.R2, mask), alu.Reg(asm.R0, asm.R2))
}

// divide computes R0 / R2 or R0 % R2. BPF divides unsigned numbers only (signed division
// came with Linux 6.6), so signed operands are made positive first. The quotient is
// negative if the signs differ; the remainder has the sign of the dividend.
func (a *assembler) divide(op expr.Op, signed bool) {
	a.emit(asm.JEq.Imm(asm.R2, 0, a.failed()))
	alu := asm.Div
	if op == expr.OpMod {
		alu = asm.Mod
	}
	if !signed {
		a.emit(alu.Reg(asm.R0, asm.R2))
		return
	}
	a.emit(asm.Mov.Reg(asm.R3, asm.R0))
	if op == expr.OpDiv {
		a.emit(asm.Xor.Reg(asm.R3, asm.R2))
	}
	a.absolute(asm.R0)
	a.absolute(asm.R2)
	a.emit(alu.Reg(asm.R0, asm.R2))
	positive := a.label("positive")
	a.emit(asm.JSGE.Imm(asm.R3, 0, positive), asm.Neg.Imm(asm.R0, 0))
	a.place(positive)
}

func (a *assembler) absolute(reg asm.Register) {
	positive := a.label("positive")
	a.emit(asm.JSGE.Imm(reg, 0, positive), asm.Neg.Imm(reg, 0))
	a.place(positive)
}

// A wordKind says what the verifier makes of one word of a fentry program's context
// (btf_ctx_access in kernel/bpf/btf.c).
type wordKind uint8

const (
	wordNumber  wordKind = iota // integers, enums, void pointers and integer pointers
	wordTyped                   // pointers to structs and unions
	wordRefused                 // all other pointers
)

// paramKind is contextKind for a parameter. The kernel marks arguments of tracepoints that
// may be NULL by the suffix __nullable; the verifier rejects any use of them before a
// comparison with NULL.
func paramKind(p *layout.Param) wordKind {
	kind := contextKind(p.Type)
	if kind == wordTyped && strings.HasSuffix(p.Name, "__nullable") {
		return wordRefused
	}
	return kind
}

// contextKind returns what the verifier makes of a word of type t.
func contextKind(t btf.Type) wordKind {
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return wordNumber
	}
	if _, void := p.Target.(*btf.Void); void { // but const void * is refused, in 6.12 still
		return wordNumber
	}
	switch btf.UnderlyingType(p.Target).(type) {
	case *btf.Int:
		return wordNumber
	case *btf.Struct, *btf.Union:
		return wordTyped
	}
	return wordRefused
}
