// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

// Text returns an instruction as the GNU assembler writes it; "" if it cannot be decoded.
func (f *Function) Text(addr uint64) string {
	b := builder{f: f}
	code := b.code(addr)
	switch f.Arch {
	case "amd64":
		if x, err := decodeX86(code); err == nil {
			// A base that takes a SIB byte is written with an index that is none.
			return strings.NewReplacer(",%riz)", ")", ",%eiz)", ")").Replace(x86asm.GNUSyntax(x, addr, nil))
		}
	case "arm64":
		if len(code) < 4 {
			return ""
		}
		if x, err := arm64asm.Decode(code); err == nil {
			return arm64asm.GNUSyntax(x)
		}
		return fmt.Sprintf(".inst 0x%08x", binary.LittleEndian.Uint32(code))
	}
	return ""
}

// Mnemonic returns what an instruction does, without its operands.
func (f *Function) Mnemonic(addr uint64) string {
	text, _, _ := strings.Cut(f.Text(addr), " ")
	return text
}

// Place writes an address of a function as it is written behind its name: "+0x1c", and for
// code that the compiler has moved away ".cold+0x3".
func (f *Function) Place(addr uint64) string {
	for i := range f.Parts {
		if p := &f.Parts[i]; addr >= p.Addr && addr-p.Addr < uint64(len(p.Bytes)) {
			return fmt.Sprintf("%s+%#x", [...]string{"", ".cold"}[min(i, 1)], addr-p.Addr)
		}
	}
	return fmt.Sprintf("%#x", addr)
}
