// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"debug/elf"
	"encoding/binary"
)

// Of arm64, 356 is no system call.
var smallPrograms = []smallCalls{{elf.ELFCLASS32, elf.EM_ARM, armCalls, 356}, {elf.ELFCLASS64, elf.EM_AARCH64, setsidCalls, 0}}

func words(all ...uint32) (code []byte) {
	for _, w := range all {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// armCalls is the code of a 32-bit program: eventfd2 with a bad flag, write of a message to standard error, and exit with 1.
//
//	mov r7, #356; mov r0, #0; mov r1, #0xdead; mov r2, #0; mov r3, #0; mov r4, #0; mov r5, #0; svc #0
//	mov r7, #4; mov r0, #2; adr r1, message; mov r2, #length; svc #0
//	mov r7, #1; mov r0, #1; svc #0
func armCalls(uint32) []byte {
	const text = "small: eventfd2: Invalid argument\n"
	return append(words(0xe3007164, 0xe3a00000, 0xe30d1ead, 0xe3a02000, 0xe3a03000, 0xe3a04000, 0xe3a05000, 0xef000000,
		0xe3a07004, 0xe3a00002, 0xe28f1010, 0xe3a02000|uint32(len(text)), 0xef000000,
		0xe3a07001, 0xe3a00001, 0xef000000), text...)
}

// setsidCalls is the code of a program that makes two sessions, of which it cannot make the second one. What it has in the first
// two registers for parameters is none.
//
//	mov x0, #11; mov x1, #12; mov x8, #157; svc #0; mov x0, #11; svc #0; mov x8, #93; mov x0, #1; svc #0
func setsidCalls(uint32) []byte {
	return words(0xd2800160, 0xd2800181, 0xd28013a8, 0xd4000001, 0xd2800160, 0xd4000001, 0xd2800ba8, 0xd2800020, 0xd4000001)
}
