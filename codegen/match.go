// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// branchMatch jumps to label if the truth of a match equals sense.
func (a *assembler) branchMatch(t *expr.Match, label string, sense bool) {
	if t.Op == expr.OpNe {
		sense = !sense
	}
	if expr.MatchLimit(t) > maxInline {
		a.callMatch(t)
		op := asm.JEq
		if sense {
			op = asm.JNE
		}
		a.emit(op.Imm(asm.R0, 0, label))
		return
	}
	no := label
	if sense {
		no = a.label("differs")
	}
	size := (int(expr.MatchLimit(t)) + 7) &^ 7
	if t.X.Addr != nil {
		a.value(t.X.Addr, useAny)
	}
	a.compareString(t, stackSpill-8*a.depth-size, no)
	if sense {
		a.emit(asm.Ja.Label(label))
		a.place(no)
	}
}

// maxInline is the longest string, in bytes, that is read to the caller's own frame. The
// engine's functions are called from that frame and need stack too. A longer string is
// compared in a function of its own, whose frame is gone by then.
const maxInline = 64

// callMatch sets R0 to 1 or 0, or to -1 if the string cannot be read. It calls a function
// of its own.
func (a *assembler) callMatch(t *expr.Match) {
	a.value(t.X.Addr, useAny)
	a.reads = true
	a.saveContext()
	a.emit(asm.Mov.Reg(asm.R1, asm.R0), call(a.matchFunction(t)))
	a.restoreContext()
	a.emit(asm.JSLT.Imm(asm.R0, 0, a.failed()))
}

// matchFunction returns the name of the function that matches the string at its only
// argument, an address.
func (a *assembler) matchFunction(t *expr.Match) string {
	f := newAssembler(a.probe, a.target, a.phase, fmt.Sprintf("%s_match%d", a.prefix, len(a.functions)))
	f.ctx = asm.R6 // there is no context to save
	f.source = a.source
	differs := f.label("differs")
	f.emit(asm.Mov.Reg(asm.R0, asm.R1))
	f.compareString(t, -(int(expr.MatchLimit(t))+7)&^7, differs)
	f.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
	f.place(differs)
	f.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	if f.faulted {
		f.place(f.fault)
		f.emit(asm.Mov.Imm(asm.R0, -1), asm.Return())
	}
	a.functions = append(a.functions, bpf.Subprogram{Name: f.prefix, Args: 1, Insns: f.done()})
	return f.prefix
}

// compareString reads a string from the address in R0 to the stack at base. It jumps to no
// if the string is not the one in the pattern, for OpNe as well.
func (a *assembler) compareString(t *expr.Match, base int, no string) {
	b := &stringBuffer{a, base, int(expr.MatchLimit(t)), t.X.Terminated(), t.X.Cut()}
	b.read(t.X)
	if t.Op == expr.OpMatch {
		b.glob(t.Pattern, no)
	} else {
		b.equal(t.Pattern, no)
	}
}

// A stringBuffer is a string on the stack.
type stringBuffer struct {
	*assembler
	base       int // offset from the frame pointer
	limit      int // most bytes to read
	terminated bool
	cut        bool // the array goes on behind the limit
}

// read reads the string at the address in R0. If the string is terminated, R0 is then its
// length with the NUL.
func (b *stringBuffer) read(t *expr.Text) {
	into := []asm.Instruction{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(b.base))}
	if t.Addr == nil {
		b.emit(asm.Mov.Imm(asm.R2, int32(b.limit)))
		b.helper(asm.FnGetCurrentComm, into...)
		return
	}
	b.emit(asm.Mov.Reg(asm.R3, asm.R0))
	b.addOffset(asm.R3, t.Off)
	b.emit(asm.Mov.Imm(asm.R2, int32(b.limit)))
	if b.terminated {
		b.helper(stringReaders[t.Space], into...)
		b.emit(asm.JSLT.Imm(asm.R0, 0, b.failed()))
		return
	}
	b.helper(readers[t.Space], into...)
	b.emit(asm.JNE.Imm(asm.R0, 0, b.failed()))
}

// equal jumps to no unless the string is text.
func (b *stringBuffer) equal(text, no string) {
	switch {
	case len(text) > b.limit, b.terminated && len(text) == b.limit:
		b.emit(asm.Ja.Label(no))
		return
	case len(text) < b.limit:
		text += "\x00"
	}
	b.compare(text, no)
}

// compare jumps to no unless the buffer starts with text.
func (b *stringBuffer) compare(text, no string) {
	for at := 0; at < len(text); {
		chunk := []byte(text[at:])
		size := 8
		for size > len(chunk) {
			size /= 2
		}
		v := make([]byte, 8)
		copy(v, chunk[:size])
		want := binary.LittleEndian.Uint64(v)
		b.emit(asm.LoadMem(asm.R0, asm.RFP, int16(b.base+at), sizeOf(uint32(size))))
		switch {
		case size == 4:
			b.emit(asm.JNE.Imm32(asm.R0, int32(want), no))
		case fitsImm(want):
			b.emit(asm.JNE.Imm(asm.R0, int32(want), no))
		default:
			b.constant(asm.R2, want)
			b.emit(asm.JNE.Reg(asm.R0, asm.R2, no))
		}
		at += size
	}
}

// Registers of a glob: the position of a comparison, and the length of the string.
const (
	globAt     = asm.R2
	globLength = asm.R3
	globEnd    = asm.R4
)

// glob jumps to no unless the string matches. The pattern is prefix, prefix*suffix or
// prefix*infix*suffix. Each part may be empty and may contain ?.
func (b *stringBuffer) glob(pattern, no string) {
	pieces := glob.Pieces(pattern)
	prefix, suffix := pieces[0], pieces[len(pieces)-1]
	least := len(strings.Join(pieces, ""))
	if least > b.limit {
		b.emit(asm.Ja.Label(no))
		return
	}
	b.length()
	if len(pieces) == 1 {
		b.emit(asm.JNE.Imm(globLength, int32(len(prefix)), no))
		b.piece(prefix, asm.RFP, b.base, no)
		return
	}
	b.emit(asm.JLT.Imm(globLength, int32(least), no))
	b.piece(prefix, asm.RFP, b.base, no)
	if suffix != "" {
		if b.cut { // its end was not read
			b.emit(asm.JEq.Imm(globLength, int32(b.limit), b.failed()))
		}
		b.pointAt(globLength, -len(suffix), len(suffix))
		b.piece(suffix, globEnd, 0, no)
	}
	if len(pieces) == 3 && pieces[1] != "" {
		b.infix(pieces[1], len(prefix), len(suffix), no)
	}
}

// length sets globLength to the number of bytes before the NUL. For an empty string, the
// helper for user memory returns 0 instead of 1 (strncpy_from_user_nofault in
// mm/maccess.c).
func (b *stringBuffer) length() {
	found := b.label("length")
	if b.terminated {
		b.emit(asm.Mov.Reg(globLength, asm.R0), asm.JEq.Imm(globLength, 0, found), asm.Sub.Imm(globLength, 1))
		b.place(found)
		return
	}
	for i := range b.limit {
		b.emit(asm.Mov.Imm(globLength, int32(i)),
			asm.LoadMem(asm.R0, asm.RFP, int16(b.base+i), asm.Byte), asm.JEq.Imm(asm.R0, 0, found))
	}
	b.emit(asm.Mov.Imm(globLength, int32(b.limit)))
	b.place(found)
}

// pointAt sets globEnd to the address of byte index + off of the buffer, from which n bytes
// will be read. The caller has made sure that they are inside; the comparison tells the verifier
// so. The index is added to the frame pointer, not the other way round: then the verifier of Linux 6.18
// takes the sum for an address in the frame of the caller: its log says fp[0].
func (b *stringBuffer) pointAt(index asm.Register, off, n int) {
	const at = asm.R5
	b.emit(asm.Mov.Reg(at, index), asm.Add.Imm(at, int32(off)))
	inside := b.label("inside")
	b.emit(asm.JLE.Imm(at, int32(b.limit-n), inside), asm.Mov.Imm(at, 0))
	b.place(inside)
	b.emit(asm.Mov.Reg(globEnd, asm.RFP), asm.Add.Reg(globEnd, at), asm.Add.Imm(globEnd, int32(b.base)))
}

// piece compares text with the bytes at reg + off. ? matches any byte.
func (b *stringBuffer) piece(text string, reg asm.Register, off int, no string) {
	for i := range len(text) {
		if text[i] != '?' {
			b.emit(asm.LoadMem(asm.R0, reg, int16(off+i), asm.Byte), asm.JNE.Imm(asm.R0, int32(text[i]), no))
		}
	}
}

// infix searches for text between the prefix and the suffix of the string.
func (b *stringBuffer) infix(text string, prefix, suffix int, no string) {
	again, next, found := b.label("again"), b.label("next"), b.label("found")
	if b.cut && suffix == 0 { // it may be in what was not read
		missed, differs, fault := b.label("missed"), no, b.failed()
		no = missed
		b.later = append(b.later, func() {
			b.place(missed)
			b.emit(asm.JEq.Imm(globLength, int32(b.limit-len(text)), fault), asm.Ja.Label(differs))
		})
	}
	b.emit(asm.Mov.Imm(globAt, int32(prefix)))
	b.emit(asm.Sub.Imm(globLength, int32(suffix+len(text))))
	b.place(again)
	b.emit(asm.JSGT.Reg(globAt, globLength, no), asm.JGE.Imm(globAt, int32(b.limit), no))
	b.pointAt(globAt, 0, len(text))
	b.piece(text, globEnd, 0, next)
	b.emit(asm.Ja.Label(found))
	b.place(next)
	b.emit(asm.Add.Imm(globAt, 1), asm.Ja.Label(again))
	b.place(found)
}
