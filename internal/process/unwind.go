// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// mostFrames is how many frames of a stack are unwound.
const mostFrames = 256

var _ unwind.Code = (*Process)(nil)

// Row implements unwind.Code: by the unwind information of the mapped file or, of a Go
// program, by Go's own table, or else by the code.
func (p *Process) Row(pc uint64, left *int) (*unwind.Row, unwind.Way, unwind.What) {
	m, _ := p.mapping(pc)
	switch {
	case m == nil:
		return nil, 0, unwind.Nothing
	case m.file.path == "[uprobes]":
		return nil, 0, unwind.Kernels
	}
	img, _ := p.image(m)
	if img == nil {
		if f, _ := p.generated(pc); f != nil {
			if row := trampolineRow(f, pc, left); row != nil {
				return row, unwind.ByCode, unwind.Mapped
			}
		}
		return nil, 0, unwind.Mapped
	}
	linked, ok := linkedAt(img.loads, pc-m.start+m.offset)
	if !ok {
		return nil, 0, unwind.Mapped
	}
	before := img.keptRows()
	row, way := img.row(linked, left)
	p.symbols.keepRows(img, img.keptRows()-before)
	return row, way, unwind.Mapped
}

// Trampolines are what CPython from 3.12 on writes for each function with -X perf, on amd64
// (Python/asm_trampoline.S): they call the interpreter, and keep no frame pointer. The second one is of
// builds with -fcf-protection.
var trampolines = [...]string{
	"\x48\x83\xec\x08" + // sub $8, %rsp
		"\xff\xd1" + // call *%rcx
		"\x48\x83\xc4\x08" + // add $8, %rsp
		"\xc3", // ret
	"\xf3\x0f\x1e\xfa" + // endbr64
		"\x48\x83\xec\x08\xff\xd1\x48\x83\xc4\x08\xc3",
}

// trampolineRow returns the rules at an address of generated code if that is a trampoline of Python, as its
// name and its size tell; else nil. The process's memory is not needed: it may have ended.
func trampolineRow(f *function, pc uint64, left *int) *unwind.Row {
	if !strings.HasPrefix(f.name, "py::") {
		return nil
	}
	for _, code := range trampolines {
		if f.end-f.addr == uint64(len(code)) {
			return unwind.CodeRow([]byte(code), f.addr, pc, left)
		}
	}
	return nil
}

// An Unwinder finds the stacks of processes in the copies that records have of them.
type Unwinder struct {
	symbols *Symbols
	arch    string
	walker  unwind.Walker
	frames  []unwind.Frame
	data    []byte
	probed  []bpf.UserReturn
	returns []unwind.Return
}

// NewUnwinder returns one for processes of a GOARCH. s is to be from Following.
func NewUnwinder(s *Symbols, arch string) *Unwinder {
	u := &Unwinder{symbols: s, arch: arch, walker: unwind.Walker{Machine: unwind.AMD64(), Depth: mostFrames}}
	if arch == "arm64" {
		u.walker.Machine = unwind.ARM64()
	}
	return u
}

// Unwind returns the stack that was copied to a section of a record, as a section: one with
// bpf.UserFrames. It is valid until the next call. short says that the copy does not reach far
// enough.
func (u *Unwinder) Unwind(e *bpf.Event, s bpf.Section) (stack bpf.Section, short bool) {
	u.symbols.mu.Lock()
	defer u.symbols.mu.Unlock()
	stack = bpf.Section{Kind: bpf.SectionUserStack, Errno: s.Errno, Unwound: true}
	c, ok := bpf.DecodeUserCopy(s, u.arch)
	if !ok {
		return stack, false
	}
	end := unwind.EndNoInfo
	regs, wide := registers(&c, u.arch)
	u.frames = append(u.frames[:0], unwind.Frame{PC: regs.PC, Exact: true})
	if wide {
		sp := regs.Value[u.walker.Machine.Stack()] &^ 7
		u.probed, u.returns = c.AppendReturns(u.probed[:0]), u.returns[:0]
		for _, r := range u.probed {
			u.returns = append(u.returns, unwind.Return{Stack: r.Stack, PC: r.Address})
		}
		stack := unwind.Stack{Addr: sp, Bytes: c.Stack, Returns: u.returns, Cut: len(u.returns) == bpf.MaxUserReturns}
		if p := u.symbols.of(e, string(bytes.TrimRight(e.Comm[:], "\x00"))); p.doubted {
			end = unwind.EndUnknown
		} else {
			u.frames, end = u.walker.Walk(u.frames[:0], &regs, stack, p)
		}
	}
	u.data = u.data[:0]
	for _, f := range u.frames {
		u.data = binary.LittleEndian.AppendUint64(u.data, uint64(bpf.NewUserFrame(f.PC, uint8(f.Way), f.Exact)))
	}
	if end != unwind.EndOutermost && end != unwind.EndDepth {
		u.data = binary.LittleEndian.AppendUint64(u.data, uint64(bpf.UserStackEnd(uint8(end))))
	}
	stack.Data, stack.Cut = u.data, end == unwind.EndDepth
	return stack, end == unwind.EndShort
}

// amd64Words are the places of the registers of DWARF, rax to r15, among the words of struct
// pt_regs: r15, r14, r13, r12, bp, bx, r11 to r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags,
// sp, ss.
var amd64Words = [16]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}

const (
	amd64PC, amd64CS = 16, 17
	code32           = 0x23 // the code segment of processes of 32 bits
	arm64PC          = 32
	arm64State       = 33
	state32          = 0x10 // of pstate
)

// registers returns the registers of a thread in user space. wide is false for processes of
// 32 bits.
func registers(c *bpf.UserCopy, arch string) (r unwind.Regs, wide bool) {
	if arch == "arm64" {
		for reg := range arm64PC { // x0 to x30 and sp
			r.Set(uint8(reg), c.Word(reg))
		}
		r.PC = c.Word(arm64PC)
		return r, c.Word(arm64State)&state32 == 0
	}
	for reg, word := range amd64Words {
		r.Set(uint8(reg), c.Word(word))
	}
	r.PC = c.Word(amd64PC)
	return r, c.Word(amd64CS) != code32
}
