// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// CallSize is how many bytes of code before a return address Called looks at: the longest call of amd64 without its prefixes.
const CallSize = 7

// RestorerSize is how many bytes of code from a return address on Called looks at.
const RestorerSize = 9

// Called reports whether an address can be a return address, by the code before and behind it: a call is before it, or it is
// where signal handlers return to. Of machines whose code is not known it can.
func Called(m elf.Machine, before, behind []byte) bool {
	switch m {
	case elf.EM_X86_64, elf.EM_386:
		return calledX86(before) || restores(behind, signalAMD64.sigreturn, "\xb8\x0f\x00\x00\x00\x0f\x05", // mov $15,%eax; syscall
			"\x58\xb8\x77\x00\x00\x00\xcd\x80", "\xb8\xad\x00\x00\x00\xcd\x80") // pop %eax; mov $119,%eax; int $0x80, and 173
	case elf.EM_AARCH64:
		return calledARM64(before) || restores(behind, signalARM64.sigreturn)
	}
	return true
}

// restores reports whether code begins with one of the restorers of signal handlers.
func restores(code []byte, restorers ...string) bool {
	return slices.ContainsFunc(restorers, func(r string) bool { return strings.HasPrefix(string(code), r) })
}

// calledX86 reports whether code ends with a call. Prefixes need no look: what follows them is a call, too.
func calledX86(code []byte) bool {
	const direct, directSize = 0xe8, 5 // call rel32
	if len(code) >= directSize && code[len(code)-directSize] == direct {
		return true
	}
	for size := 2; size <= min(len(code), CallSize); size++ {
		if inst := code[len(code)-size:]; inst[0] == 0xff && indirectSize(inst) == size {
			return true
		}
	}
	return false
}

// indirectSize returns the size of a call through a register or memory, which begins with 0xff; 0 if it is no call.
func indirectSize(inst []byte) int {
	mode, operation, base := inst[1]>>6, inst[1]>>3&7, inst[1]&7
	if operation != 2 && operation != 3 { // /3: far
		return 0
	}
	const inSIB, inDisplacement = 4, 5
	size := 2
	if mode != 3 && base == inSIB {
		if len(inst) < 3 {
			return 0
		}
		base = inst[2] & 7
		size++
	}
	switch {
	case mode == 0 && base == inDisplacement, mode == 2:
		size += 4
	case mode == 1:
		size++
	}
	return size
}

// calledARM64 reports whether code ends with BL or BLR, or with one of the BLR that authenticate.
func calledARM64(code []byte) bool {
	if len(code) < 4 {
		return false
	}
	word := binary.LittleEndian.Uint32(code[len(code)-4:])
	return word&0xfc000000 == 0x94000000 || // BL
		word&0xfffffc1f == 0xd63f0000 || // BLR
		word&0xfffff81f == 0xd63f081f || // BLRAAZ, BLRABZ
		word&0xfffff800 == 0xd73f0800 // BLRAA, BLRAB
}
