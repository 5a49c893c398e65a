// SPDX-License-Identifier: Apache-2.0

package code

import "fmt"

// decode decodes the first instruction of code, which is at an address. Of what it cannot
// decode, the error tells why, and the flow is Unknown.
func decode(arch string, code []byte, addr uint64) (Instruction, error) {
	switch arch {
	case "amd64":
		return decodeAMD64(code, addr)
	case "arm64":
		return decodeARM64(code, addr)
	}
	return Instruction{Addr: addr, flow: Unknown}, fmt.Errorf("%q: %w", arch, errArch)
}

// Taken tells from the word whether the jump jumps.
func (t Test) Taken(word uint64) bool {
	switch t.Kind {
	case FlagsAMD64:
		return conditionAMD64(t.Code, word)
	case FlagsARM64:
		return conditionARM64(t.Code, word)
	case Zero:
		return word<<(64-t.Bits) == 0
	case NotZero:
		return word<<(64-t.Bits) != 0
	case BitClear:
		return word>>t.Bits&1 == 0
	}
	return word>>t.Bits&1 != 0
}
