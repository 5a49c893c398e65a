// SPDX-License-Identifier: Apache-2.0

package kmod

import "encoding/binary"

// CallSize is the size of an encoded Call, which is what a write to the
// module's parameter "call" takes.
const CallSize = 8 * callWords

const callWords = 14

// A Call is one call of one of the module's functions.
type Call struct {
	Func uint64     // its address
	Args [10]uint64 // six in registers, four on the stack
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

// setCode is int set(const char *call, const struct kernel_param *kp): the
// kernel calls it with what was written. Registers that a function must
// preserve carry what the called function is to do, past any trampoline;
// rbx is not among them, as the kernel's trampolines use it.
var setCode = []byte{
	0x41, 0x54, // push r12
	0x41, 0x55, // push r13
	0x41, 0x56, // push r14
	0x4c, 0x8b, 0x77, 0x38, // mov r14, [rdi+56]
	0x4c, 0x8b, 0x67, 0x40, // mov r12, [rdi+64]
	0x4c, 0x8b, 0x6f, 0x48, // mov r13, [rdi+72]
	0xff, 0x77, 0x68, // push [rdi+104]
	0xff, 0x77, 0x60, // push [rdi+96]
	0xff, 0x77, 0x58, // push [rdi+88]
	0xff, 0x77, 0x50, // push [rdi+80]
	0x48, 0x8b, 0x07, // mov rax, [rdi]
	0x48, 0x8b, 0x77, 0x10, // mov rsi, [rdi+16]
	0x48, 0x8b, 0x57, 0x18, // mov rdx, [rdi+24]
	0x48, 0x8b, 0x4f, 0x20, // mov rcx, [rdi+32]
	0x4c, 0x8b, 0x47, 0x28, // mov r8, [rdi+40]
	0x4c, 0x8b, 0x4f, 0x30, // mov r9, [rdi+48]
	0x48, 0x8b, 0x7f, 0x08, // mov rdi, [rdi+8]
	0xff, 0xd0, // call rax
	0x48, 0x83, 0xc4, 0x20, // add rsp, 32
	0x41, 0x5e, // pop r14
	0x41, 0x5d, // pop r13
	0x41, 0x5c, // pop r12
	0x31, 0xc0, // xor eax, eax
	0xc3, // ret
}

// funcCode is each of the traced functions. It begins with the call that
// ftrace turns into its hook.
var funcCode = []byte{
	0xe8, 0, 0, 0, 0, // call __fentry__
	0x4d, 0x31, 0x2c, 0x24, // xor [r12], r13
	0x4c, 0x89, 0xf0, // mov rax, r14
	0x31, 0xff, // xor edi, edi: nobody may count on arguments at return
	0x31, 0xf6, // xor esi, esi
	0x31, 0xd2, // xor edx, edx
	0x31, 0xc9, // xor ecx, ecx
	0x45, 0x31, 0xc0, // xor r8d, r8d
	0x45, 0x31, 0xc9, // xor r9d, r9d
	0xc3, // ret
}

// funcAlign is how far functions are apart.
const funcAlign = 32
