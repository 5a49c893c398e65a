// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// A codeMemory has code from an address on.
type codeMemory struct {
	addr uint64
	text []byte
}

func (m codeMemory) read(to []byte, addr uint64) error {
	if addr < m.addr || addr-m.addr+uint64(len(to)) > uint64(len(m.text)) {
		return io.EOF
	}
	copy(to, m.text[addr-m.addr:])
	return nil
}

func (codeMemory) Close() error { return nil }

// TestMisplaced: neither half of a pointer among code is probed, and what is before and behind it is.
func TestMisplaced(t *testing.T) {
	text := make([]byte, 64)
	binary.LittleEndian.PutUint64(text[16:], 0xffffa7f754520d88)
	m := codeMemory{0xffff80008034e3f0, text}
	for off := uint64(0); off < 48; off += 4 {
		err := misplaced("arm64", m, m.addr+off)
		if want := off == 16 || off == 20; errors.Is(err, errPointer) != want || (err != nil) != want {
			t.Errorf("+%d: %v", off, err)
		}
	}
	if err := misplaced("amd64", codeMemory{0x1000, append([]byte{0x2e, 0xe8}, make([]byte, 40)...)}, 0x1000); !errors.Is(err, errMisemulated) {
		t.Errorf("a call with a prefix: %v", err)
	}
}
