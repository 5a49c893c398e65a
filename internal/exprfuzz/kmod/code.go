// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"debug/elf"
	"encoding/binary"
)

// CallSize is the size of an encoded Call, which is what a write to the
// module's parameter "call" takes.
const CallSize = 8 * callWords

const callWords = 14

// A Call is one call of one of the module's functions.
type Call struct {
	Func uint64     // its address
	Args [10]uint64 // six in registers, four on the stack; on arm64 eight and two
	// The function exchanges the word at address Flip by itself XOR Mask, and
	// then returns Result.
	Result, Flip, Mask uint64
}

// Append encodes c.
func (c *Call) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, c.Func)
	for _, a := range c.Args[:6] {
		dst = le.AppendUint64(dst, a)
	}
	dst = le.AppendUint64(dst, c.Result)
	dst = le.AppendUint64(dst, c.Flip)
	dst = le.AppendUint64(dst, c.Mask)
	for _, a := range c.Args[6:] {
		dst = le.AppendUint64(dst, a)
	}
	return dst
}

// A machine is what differs between architectures.
type machine struct {
	elf     elf.Machine
	address uint32 // the relocation that is an address of 64 bits
	// set is int set(const char *call, const struct kernel_param *kp): the
	// kernel calls it with what was written. Registers that a function must
	// preserve carry what the called function is to do, past any trampoline.
	set []byte
	// fn is each of the traced functions, which begins entry bytes behind the
	// beginning. It has what ftrace turns into its hook.
	fn    []byte
	entry int
	// hook is the relocation of the call that the hook is, at hookAt.
	hook   uint32
	hookAt int
	// sites is the section that tells ftrace of the functions, by the
	// address of the beginning.
	sites string
	empty []string // sections that the kernel wants to find
}

// funcAlign is how far functions are apart.
const funcAlign = 32
