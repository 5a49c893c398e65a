// SPDX-License-Identifier: Apache-2.0

package unwind

import "encoding/binary"

// A Stack is a copy of a part of memory that begins at the stack pointer.
type Stack struct {
	Addr  uint64
	Bytes []byte
	// Returns are calls whose returns are probed, newest first. Cut says that there may be more.
	Returns []Return
	Cut     bool
}

// A Return is a call whose return is probed: where its return address was, there is that of a trampoline.
type Return struct {
	Stack uint64 // the stack pointer at its entry
	PC    uint64 // to which it returns
}

// A Way is how a frame was found.
type Way uint8

const (
	ByRegisters Way = iota // the innermost: it is where the thread is
	ByTable                // by unwind information
	ByGo                   // by the table of Go's functions
	ByPointer              // by the frame pointer: functions may be missing before it
	ByCode                 // by what the code does with the stack pointer
	ByCall                 // by the one below having no code: it must just have been called
)

// A Frame is a function that has not returned.
type Frame struct {
	// PC is where it is executing: of all but the innermost, and those that a signal has
	// interrupted, the address to which its call returns.
	PC  uint64
	Way Way
	// Exact says that PC is no return address.
	Exact bool
}

// An End says why no more frames were found.
type End uint8

const (
	EndOutermost End = iota // there are none
	EndDepth                // more than asked for
	EndShort                // the copy of the stack is too short
	EndSwitch               // the stack goes on elsewhere: goroutines, signals on stacks of their own
	EndUnmapped             // an address at which no code was mapped
	EndNoInfo               // code without unwind information and frame pointer
	EndLost                 // a register was needed that is not known
	EndDamaged              // unwind information or a stack that makes no sense
	EndProbed               // the return address is that of a return probe, and the right one is not known
	EndLong                 // to find more takes more steps than are made for a stack
	EndUnknown              // it is not known what the process had mapped
)

var wayNames = [...]string{ByTable: "cfi", ByGo: "pclntab", ByPointer: "frame pointer", ByCode: "code", ByCall: "call"}

// String returns what the output calls the way; "" for ByRegisters.
func (w Way) String() string {
	if int(w) >= len(wayNames) {
		return "unknown"
	}
	return wayNames[w]
}

var endTexts = [...]string{
	EndShort:    "the rest of the stack was not copied",
	EndSwitch:   "the rest is on another stack",
	EndUnmapped: "the address above is of no known code",
	EndNoInfo:   "no unwind information above, and no frame pointer",
	EndLost:     "a register that the next frame depends on is not known",
	EndDamaged:  "the unwind information above, or the stack, makes no sense",
	EndProbed:   "behind a return probe, of which there are too many",
	EndLong:     "to find the callers above takes too long",
	EndUnknown:  "what the process had mapped is not known",
}

// String says why there are no more frames; "" for the outermost.
func (e End) String() string {
	if int(e) >= len(endTexts) {
		return "unknown"
	}
	return endTexts[e]
}

// A Code has the code of a process.
type Code interface {
	// Row returns the rules at an address of the process; nil if there are none. Only where what is [Mapped]
	// there can be some. It takes its steps from those that are left, and finds nothing new if these are negative.
	Row(pc uint64, left *int) (row *Row, way Way, what What)
}

// What says what is at an address of a process.
type What uint8

const (
	Nothing What = iota // nothing that is known
	Kernels             // code that the kernel has put there, of which nothing is known
	Mapped
)

// A Walker follows stacks. It is not safe for concurrent use.
type Walker struct {
	Machine *Machine
	Depth   int // frames of a stack at most
	w       walk
}

// mostOperands bounds the stack of an expression.
const mostOperands = 64

// mostSteps bounds what is done for one stack, in instructions of unwind information and of code, operators of expressions and
// ranges of Go's tables: the slowest take 10 ms. Of 1,345 programs and libraries of Debian 12, the largest function needs 15,601 for an
// address (qemu-hexagon), the largest of gcc 13,365, of glibc 100; the mean is 27. What is found is kept, so that a stack of
// several such functions is followed further the next time.
const mostSteps = 1 << 15

type walk struct {
	machine  *Machine
	code     Code
	stack    Stack
	regs     Regs
	operands [mostOperands]uint64
	left     int // of mostSteps
}

// Walk appends the frames of a thread, innermost first, and returns why there are no more.
func (wr *Walker) Walk(dst []Frame, regs *Regs, stack Stack, code Code) ([]Frame, End) {
	w := &wr.w
	w.machine, w.code, w.stack, w.regs, w.left = wr.Machine, code, stack, *regs, mostSteps
	dst = append(dst, Frame{PC: regs.PC, Exact: true})
	for n := 1; ; n++ {
		last := &dst[len(dst)-1]
		frame, why := w.next(last)
		if why != 0 || frame.PC == 0 && !frame.Exact {
			return dst, why
		}
		if n >= wr.Depth {
			return dst, EndDepth
		}
		dst = append(dst, frame)
	}
}

// next finds the caller of a frame. A PC of 0 says that there is none, unless it is exact: a thread has called it.
func (w *walk) next(f *Frame) (Frame, End) {
	at := f.PC
	if !f.Exact {
		at-- // the call may be the last instruction of its function
	}
	row, way, what := w.code.Row(at, &w.left)
	wild := what == Nothing && f.Exact // it was called, and no more
	switch {
	case wild:
		entry := w.machine.atEntry()
		row, way = &entry, ByCall
	case what != Mapped:
		return Frame{}, EndUnmapped
	case w.left < 0:
		return Frame{}, EndLong
	case row == nil:
		return w.byPointer()
	case row.Outermost:
		return Frame{}, EndOutermost
	case row.Switches:
		return Frame{}, EndSwitch
	}
	f.Exact = f.Exact || row.Signal // the kernel has made it look like a call of this code, which is none
	before, _ := w.regs.get(w.machine.stack)
	if why := w.apply(row); why != 0 {
		return Frame{}, why
	}
	// A caller's frame is above. A leaf of arm64 has none, and a signal may have a stack of
	// its own.
	if sp, _ := w.regs.get(w.machine.stack); !row.Signal && (sp < before || sp == before && w.machine.OnStack()) {
		return Frame{}, EndDamaged
	}
	if !row.Signal {
		if why := w.restore(true); why != 0 {
			return Frame{}, why
		}
	}
	if wild {
		if _, _, what := w.code.Row(w.regs.PC-1, &w.left); what != Mapped {
			return Frame{}, EndUnmapped
		}
	}
	return Frame{PC: w.regs.PC, Way: way, Exact: row.Signal}, 0
}

// restore puts the right address in the place of a return probe's trampoline, which is where a page of no file begins
// (uprobe_get_trampoline_vaddr of the kernel). The registers are those of the caller. exact says that its stack pointer is
// known; else it is that or below.
func (w *walk) restore(exact bool) End {
	const page = 4096
	if len(w.stack.Returns) == 0 || w.regs.PC%page != 0 {
		return 0
	}
	if _, _, what := w.code.Row(w.regs.PC, &w.left); what == Mapped {
		return 0
	}
	entry, _ := w.regs.get(w.machine.stack)
	if w.machine.OnStack() {
		entry -= 8 // the call has put the address there
	}
	for _, r := range w.stack.Returns {
		if r.Stack == entry || !exact && r.Stack > entry {
			w.regs.PC = r.PC & w.machine.mask
			return 0
		}
	}
	if w.stack.Cut {
		return EndProbed
	}
	return 0
}

// load reads a number of up to eight bytes from the stack.
func (w *walk) load(addr, size uint64) (uint64, End) {
	off := addr - w.stack.Addr
	if addr < w.stack.Addr || off > farAway {
		return 0, EndSwitch
	}
	if off+size > uint64(len(w.stack.Bytes)) {
		return 0, EndShort
	}
	var v [8]byte
	copy(v[:size], w.stack.Bytes[off:])
	return binary.LittleEndian.Uint64(v[:]), 0
}

// farAway is a distance that the frames of one stack do not reach: 8 MB is its usual limit.
const farAway = 64 << 20

// apply makes the registers those of the caller.
func (w *walk) apply(row *Row) End {
	m := w.machine
	cfa, why := w.cfa(row)
	if why != 0 {
		return why
	}
	next := w.regs
	next.Set(m.stack, cfa)
	for reg := range m.registers {
		r := &row.regs[reg]
		if r.kind == same {
			continue
		}
		v, known, why := w.value(row, r, cfa)
		if why != 0 && (reg == row.address || reg == m.stack) {
			return why
		}
		if why != 0 || !known {
			next.Known &^= 1 << reg
			continue
		}
		next.Set(reg, v)
	}
	pc, ok := next.get(row.address)
	if !ok {
		return EndLost
	}
	next.PC = pc & m.mask
	if !row.Signal {
		next.Known &^= 1 << m.pc // the caller has kept its own, to make the call
	}
	w.regs = next
	return 0
}

func (w *walk) cfa(row *Row) (uint64, End) {
	if row.cfa.kind == valExpression {
		return w.evaluate(row, row.cfa)
	}
	v, ok := w.regs.get(row.cfa.reg)
	if !ok {
		return 0, EndLost
	}
	return v + uint64(row.cfa.off), 0
}

// value returns what a register of the caller held.
func (w *walk) value(row *Row, r *rule, cfa uint64) (v uint64, known bool, why End) {
	switch r.kind {
	case offset:
		v, why = w.load(cfa+uint64(r.off), 8)
	case valOffset:
		v = cfa + uint64(r.off)
	case register:
		v, known = w.regs.get(r.reg)
		return v, known, 0
	case expression:
		if v, why = w.evaluate(row, *r, cfa); why == 0 {
			v, why = w.load(v, 8)
		}
	case valExpression:
		v, why = w.evaluate(row, *r, cfa)
	default:
		return 0, false, 0
	}
	return v, why == 0, why
}

// byPointer goes by the frame pointer, which points to where the caller's is kept, and above
// it the return address.
func (w *walk) byPointer() (Frame, End) {
	const word = 8
	m := w.machine
	fp, ok := w.regs.get(m.frame)
	sp, _ := w.regs.get(m.stack)
	switch {
	case !ok:
		return Frame{}, EndLost
	case fp == 0: // as programs start
		return Frame{}, EndOutermost
	case fp < sp || fp%word != 0:
		return Frame{}, EndNoInfo
	}
	caller, why := w.load(fp, word)
	if why == 0 {
		var pc uint64
		if pc, why = w.load(fp+word, word); why == 0 {
			w.regs.PC = pc & m.mask
		}
	}
	if why == EndSwitch {
		why = EndNoInfo // it is used for something else
	}
	if why != 0 {
		return Frame{}, why
	}
	if w.regs.PC == 0 {
		return Frame{}, EndOutermost
	}
	w.regs.Set(m.stack, fp+2*word)
	if why := w.restore(m.OnStack()); why != 0 {
		return Frame{}, why
	}
	if _, _, what := w.code.Row(w.regs.PC-1, &w.left); what != Mapped {
		return Frame{}, EndNoInfo
	}
	w.regs.Known &= 1<<m.frame | 1<<m.stack
	w.regs.Set(m.frame, caller)
	w.regs.Set(m.stack, fp+2*word)
	return Frame{PC: w.regs.PC, Way: ByPointer}, 0
}
