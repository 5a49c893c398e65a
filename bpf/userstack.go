// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"unsafe"
)

// MaxUserCopy is the largest Tail.UserCopy, in bytes.
const MaxUserCopy = uint32(engineUserLimitUSER_COPY_MAX)

// A UserCopy is what SectionUserCopy has of a thread in user space.
type UserCopy struct {
	// Regs are the registers: the words of struct pt_regs on amd64, of struct user_pt_regs on arm64.
	Regs []byte
	// returns are the calls whose returns are probed.
	returns []byte
	// Stack is a copy of memory from the stack pointer on, rounded down to 8.
	Stack []byte
}

// A UserReturn is a call of a process whose return is probed: on the stack there is another return address.
type UserReturn struct {
	Stack   uint64 // the stack pointer at its entry
	Address uint64 // to which it returns
}

// MaxUserReturns is how many of these a copy has at most.
const MaxUserReturns = int(engineUserLimitUSER_RETURNS)

// AppendReturns appends the calls whose returns are probed, newest first.
func (c *UserCopy) AppendReturns(dst []UserReturn) []UserReturn {
	var l engineUserReturn
	le := binary.LittleEndian
	for b := c.returns; len(b) > 0; b = b[unsafe.Sizeof(l):] {
		r := UserReturn{le.Uint64(b[unsafe.Offsetof(l.Stack):]), le.Uint64(b[unsafe.Offsetof(l.Address):])}
		if r.Stack == 0 {
			break
		}
		dst = append(dst, r)
	}
	return dst
}

// Word returns a register by its place among the words.
func (c *UserCopy) Word(n int) uint64 { return binary.LittleEndian.Uint64(c.Regs[8*n:]) }

// DecodeUserCopy reads a section with a copy. ok is false if it has none: threads of the kernel
// have no user space.
func DecodeUserCopy(s Section, arch string) (c UserCopy, ok bool) {
	size := addressSize * int(engineUserLimitUSER_WORDS_AMD64)
	if arch == "arm64" {
		size = addressSize * int(engineUserLimitUSER_WORDS_ARM64)
	}
	if s.Kind != SectionUserCopy || len(s.Data) < size+userReturnsSize {
		return c, false
	}
	rest := s.Data[size:]
	return UserCopy{Regs: s.Data[:size:size], returns: rest[:userReturnsSize:userReturnsSize], Stack: rest[userReturnsSize:]}, true
}

// A UserFrame is a word of a stack that user space has unwound. Addresses of processes have 56
// bits at most; the other byte says how the frame was found. The last word may be no frame but
// say why there are no more.
type UserFrame uint64

const (
	frameBits = 56
	frameEnd  = 0x80 // in the uppermost byte: the rest of it is why the stack ends
	frameAt   = 0x40 // the address is no return address
)

// NewUserFrame returns the word of a frame. How it was found is a number below 16; exact says
// that the address is no return address.
func NewUserFrame(addr uint64, way uint8, exact bool) UserFrame {
	how := uint64(way & 0x0f)
	if exact {
		how |= frameAt
	}
	return UserFrame(addr&(1<<frameBits-1) | how<<frameBits)
}

// UserStackEnd returns the word that says why there are no more frames, as a number below 128.
func UserStackEnd(why uint8) UserFrame { return UserFrame(uint64(frameEnd|why) << frameBits) }

// Addr returns the address of a frame.
func (f UserFrame) Addr() uint64 { return uint64(f) & (1<<frameBits - 1) }

// Way returns how a frame was found.
func (f UserFrame) Way() uint8 { return uint8(f>>frameBits) & 0x0f }

// Exact reports whether the address is no return address.
func (f UserFrame) Exact() bool { return f>>frameBits&frameAt != 0 }

// End returns why the stack ends; ok is false for a frame.
func (f UserFrame) End() (why uint8, ok bool) {
	return uint8(f>>frameBits) &^ frameEnd, f>>frameBits&frameEnd != 0
}

// ReplaceSection appends a record to dst, with the section of a kind, if it has one, replaced by
// another. size is that of the record without its tail.
func ReplaceSection(dst, raw []byte, size int, kind SectionKind, by *Section) ([]byte, error) {
	dst = append(dst, raw[:size]...)
	for rest := raw[size:]; len(rest) > 0; {
		var s Section
		after, err := DecodeSection(rest, &s)
		if err != nil {
			return dst, err
		}
		if s.Kind == kind {
			dst = AppendSection(dst, by)
		} else {
			dst = append(dst, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return dst, nil
}
