// SPDX-License-Identifier: Apache-2.0

package code

import (
	"errors"
	"fmt"
)

// Longest is how many bytes an instruction has at most, on any architecture.
const Longest = 15

// Begins returns an error unless an instruction begins at an offset of code that begins with
// one. It decodes all before it, so it may fail for code that the decoder does not know.
func Begins(arch string, code []byte, offset uint64) error {
	for at := uint64(0); at != offset; {
		if at > offset || at >= uint64(len(code)) {
			return errors.New("no instruction begins there")
		}
		n, err := lengthOf(arch, code[at:])
		if err != nil {
			return fmt.Errorf("whether an instruction begins there is not known, because that at +%#x cannot be decoded: %w", at, err)
		}
		if at+uint64(n) > offset {
			before, after := at, at+uint64(n)
			return fmt.Errorf("no instruction begins there; one does at +%#x and at +%#x", before, after)
		}
		at += uint64(n)
	}
	return nil
}

// lengthOf returns the length of the instruction that code begins with.
func lengthOf(arch string, code []byte) (int, error) {
	if arch == "amd64" {
		if n := vexLength(code); n > 0 {
			return n, nil
		}
	}
	if arch == "arm64" {
		if len(code) < 4 {
			return 0, errors.New("the code ends")
		}
		return 4, nil
	}
	x, err := decode(arch, code, 0)
	if err == nil && x.Len <= 0 {
		err = errUnknown
	}
	return x.Len, err
}

// vexLength returns the length of a vector instruction with a VEX or EVEX prefix (Intel SDM 2.3
// and 2.7), which the decoder of golang.org/x/arch does not know; 0 if it is none. Neither
// prefix has a meaning of its own in 64-bit mode.
func vexLength(code []byte) int {
	prefix, table := 0, byte(1)
	switch {
	case len(code) < 6:
		return 0
	case code[0] == 0xc5:
		prefix = 2
	case code[0] == 0xc4:
		prefix, table = 3, code[1]&0x1f
	case code[0] == 0x62:
		prefix, table = 4, code[1]&7
	default:
		return 0
	}
	op := code[prefix]
	n := prefix + 1
	if table == 1 && op == 0x77 && code[0] != 0x62 { // VZEROUPPER, VZEROALL
		return n
	}
	operand := modRM(code[n:])
	if operand == 0 {
		return 0
	}
	n += operand
	if table == 3 || table == 1 && (op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6) {
		n++ // an immediate byte
	}
	return n
}

// modRM returns how many bytes an operand takes: the ModR/M byte, SIB and displacement.
func modRM(code []byte) int {
	if len(code) < 1 {
		return 0
	}
	mod, rm := code[0]>>6, code[0]&7
	n := 1
	if mod == 3 {
		return n
	}
	base := rm
	if rm == 4 {
		if len(code) < 2 {
			return 0
		}
		base = code[1] & 7
		n++
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && base == 5:
		n += 4
	}
	return n
}
