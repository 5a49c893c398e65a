// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"

	"golang.org/x/arch/x86/x86asm"
)

// ud1 traps. Linux 7 warns by it, with prefixes (warninsn in arch/x86/kernel/static_call.c), and goes on behind it.
var ud1 = []byte{0x0f, 0xb9}

// decodeX86 is the decoder of golang.org/x/arch with what that lacks and kernels have. It
// returns prefixes alone as instructions of one byte, and takes VZEROUPPER for longer than it is.
func decodeX86(code []byte) (x86asm.Inst, error) {
	n := prefixBytes(code)
	if x, ok := lacking(code[n:], code[:n]); ok {
		x.Len, x.Mode = x.Len+n, 64
		return x, nil
	}
	if bytes.HasPrefix(code[n:], ud1) { // the decoder takes it without prefixes only
		x, err := x86asm.Decode(code[n:], 64)
		if err == nil && x.Op != x86asm.UD1 { // cut off: it takes the first byte for a prefix
			err = errUnknown
		}
		x.Len += n
		return x, err
	}
	x, err := x86asm.Decode(code, 64)
	if err == nil && x.Len <= n {
		err = errUnknown
	}
	return x, err
}

// prefixBytes counts the prefixes that code begins with.
func prefixBytes(code []byte) int {
	for i, b := range code {
		switch {
		case bytes.IndexByte([]byte{0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3}, b) >= 0:
		case b&0xf0 == 0x40:
		default:
			return i
		}
	}
	return len(code)
}

// lacking decodes what the decoder does not know. All go on behind them, except those that
// return to user space.
func lacking(code, prefixes []byte) (x x86asm.Inst, ok bool) {
	if len(code) < 3 {
		return x, false
	}
	x.Op, x.Len = x86asm.CPUID, 3 // as one that changes registers and the flags
	register := code[2] >= 0xc0
	mandatory := bytes.ContainsAny(prefixes, "\x66\xf2\xf3")
	switch {
	case code[0] == 0xc5 && code[2] == 0x77: // VZEROUPPER, VZEROALL
		return x, true
	case code[0] != 0x0f || !register:
		return x, false
	case code[1] == 0x01: // VMCALL, RDPKRU, SERIALIZE, PVALIDATE, ...
		if code[2] == 0xca && mandatory { // ERETU, ERETS
			x.Op = x86asm.IRETQ
		}
		return x, code[2] != 0xf8 && code[2] != 0xf9 // SWAPGS, RDTSCP
	case code[1] == 0xc7: // RDRAND, RDSEED, RDPID
		return x, code[2] >= 0xf0
	case code[1] == 0xae: // TPAUSE, UMWAIT, INCSSP
		return x, mandatory && code[2] >= 0xe8
	}
	return x, false
}
