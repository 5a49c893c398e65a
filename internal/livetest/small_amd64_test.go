// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"debug/elf"
	"encoding/binary"
)

// Of x86-64, 328 is pwritev2. A 64-bit program can make 32-bit calls as well.
var smallPrograms = []smallCalls{
	{elf.ELFCLASS32, elf.EM_386, i386Calls, 328}, {elf.ELFCLASS64, elf.EM_X86_64, i386Calls, 328}, {elf.ELFCLASS64, elf.EM_X86_64, setsidCalls, 0},
}

// i386Calls is the code, at an address, of a program that makes system calls of i386: eventfd2 with a bad flag, then write of a
// message to standard error, and exit with 1. Of x86-64 the number of eventfd2 is that of pwritev2.
//
//	mov $328, %eax; xor %ebx, %ebx; mov $0xdead, %ecx; xor %edx, %edx; xor %esi, %esi; xor %edi, %edi; xor %ebp, %ebp; int $0x80
//	mov $4, %eax; mov $2, %ebx; mov $message, %ecx; mov $length, %edx; int $0x80
//	mov $1, %eax; mov $1, %ebx; int $0x80
func i386Calls(at uint32) []byte {
	const text = "small: eventfd2: Invalid argument\n"
	le := binary.LittleEndian
	failing := []byte{0xb8, 0x48, 0x01, 0, 0, 0x31, 0xdb, 0xb9, 0xad, 0xde, 0, 0, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff, 0x31, 0xed, 0xcd, 0x80}
	write := []byte{0xb8, 4, 0, 0, 0, 0xbb, 2, 0, 0, 0, 0xb9}
	exit := []byte{0xcd, 0x80, 0xb8, 1, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xcd, 0x80}
	message := at + uint32(len(failing)+len(write)+4+1+4+len(exit))
	code := le.AppendUint32(append(failing, write...), message)
	code = le.AppendUint32(append(code, 0xba), uint32(len(text)))
	return append(append(code, exit...), text...)
}

// setsidCalls is the code of a program that makes two sessions, of which it cannot make the second one. What it has in the first
// two registers for parameters is none.
//
//	mov $11, %edi; mov $12, %esi; mov $112, %eax; syscall; mov $112, %eax; syscall; mov $60, %eax; mov $1, %edi; syscall
func setsidCalls(uint32) []byte {
	return []byte{0xbf, 11, 0, 0, 0, 0xbe, 12, 0, 0, 0, 0xb8, 112, 0, 0, 0, 0x0f, 0x05, 0xb8, 112, 0, 0, 0, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x0f, 0x05}
}
