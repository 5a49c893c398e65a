// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"encoding/binary"
	"testing"
)

// TestGoTableClaims has tables of Go that claim any number of functions, all of which are at the same address, in a file
// that has symbols too.
func TestGoTableClaims(t *testing.T) {
	const text, tableAt, size = 0x1000, 4096, 1 << 26
	for _, test := range []struct {
		count uint64
		read  bool
	}{{mostFunctions, true}, {mostFunctions + 1, false}, {1 << 63, false}, {1<<64 - 1, false}} {
		head := headed(tableAt, "\x00.text\x00.gopclntab\x00.symtab\x00",
			elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Addr: text, Off: tableAt, Size: text},
			elf.Section64{Name: 7, Type: uint32(elf.SHT_PROGBITS), Off: tableAt, Size: size},
			elf.Section64{Name: 18, Type: uint32(elf.SHT_SYMTAB)})
		head = binary.LittleEndian.AppendUint32(head, goTable120)
		head = append(head, 0, 0, 1, 8)
		const pastHeader = 72
		for _, word := range []uint64{test.count, 0, text, 0, 0, 0, pastHeader, pastHeader} {
			head = binary.LittleEndian.AppendUint64(head, word)
		}
		file := sparse{head, tableAt + size}
		img, err := readImage(file)
		if err != nil {
			t.Fatalf("%#x: %v", test.count, err)
		}
		left := 1
		if _, err := img.readUnwinding(file); err != nil || (img.frames != nil) != test.read {
			t.Errorf("%#x functions: %v, frames %v", test.count, err, img.frames)
		} else if test.read && img.frames.row(text+1, &left) != nil {
			t.Errorf("%#x functions: one of no size has a frame", test.count)
		}
	}
}
