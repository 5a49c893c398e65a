// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/fstest"
)

// A sparseFile is zero behind its first bytes. It counts what is read.
type sparseFile struct {
	head []byte
	size int64
	read int64
}

func (s *sparseFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off+int64(len(b)) > s.size {
		b, err = b[:max(0, s.size-off)], io.EOF
	}
	clear(b)
	if off < int64(len(s.head)) {
		copy(b, s.head[off:])
	}
	s.read += int64(len(b))
	return len(b), err
}

// TestSparseBTF has files that are much larger than what is in them, or claim it.
func TestSparseBTF(t *testing.T) {
	types := vmlinuxBTF(t)
	claims := func(order binary.AppendByteOrder, lengths ...uint32) []byte {
		b := order.AppendUint16(nil, btfMagic)
		b = append(b, 1, 0) // version, flags
		b = order.AppendUint32(b, uint32(8+4*len(lengths)))
		for _, n := range lengths {
			b = order.AppendUint32(b, n)
		}
		return b
	}
	section := elfFile(".BTF", types)
	// The size is the fifth word of the second section's header.
	at := int(binary.LittleEndian.Uint64(section[0x28:])) + 64 + 32
	binary.LittleEndian.PutUint64(section[at:], 400<<30)
	for _, test := range []struct {
		name string
		head []byte
		want string // of the error; "" for none
		most int64  // bytes to be read
	}{
		{"types, and zeros behind them", types, "", int64(len(types)) + 100},
		{"the magic alone", []byte{0x9f, 0xeb}, "truncated", 100},
		{"types of nothing", claims(binary.LittleEndian, 0, 16, 16, 16), "type 1: unknown kind 0", 24 + 32 + 100},
		{"types of 3 GiB", claims(binary.LittleEndian, 0, 3<<30, 0, 1), "it claims to be 3221225496 bytes, the most are 268435456", 100},
		{"strings at 4 GiB, big endian", claims(binary.BigEndian, 0, 16, 1<<32-1, 1), "it claims to be 4294967320 bytes", 100},
		{"a section of 400 GiB", section, "reading section .BTF: it claims to be 429496729600 bytes", 1 << 20},
		{"a section of names of 400 GiB", bytes.Replace(section, elfNames(section), elfHugeNames(section), 1), "reading ELF: names of sections", 1 << 20},
	} {
		file := &sparseFile{head: test.head, size: 500 << 30}
		_, err := OpenBTF(file, nil, "")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if file.read > test.most {
			t.Errorf("%s: %d bytes were read", test.name, file.read)
		}
		file.read = 0
		if _, err := OpenTyped(fstest.MapFS{}, file); (err == nil) != (test.want == "") || file.read > test.most {
			t.Errorf("%s: to trace: %v, %d bytes were read", test.name, err, file.read)
		}
	}
}

// elfNames is the header of the last section of an elfFile, which has the names.
func elfNames(file []byte) []byte { return file[len(file)-64:] }

// elfHugeNames is that header with a size that no names have.
func elfHugeNames(file []byte) []byte {
	h := bytes.Clone(elfNames(file))
	binary.LittleEndian.PutUint64(h[32:], 400<<30)
	return h
}

// TestDeclaredSize: a header of 32 bytes places one section more, the layout.
func TestDeclaredSize(t *testing.T) {
	head := make([]byte, 32)
	for at, n := range map[int]uint32{4: 32, 8: 0, 12: 100, 16: 100, 20: 50, 24: 152, 28: 40} {
		binary.LittleEndian.PutUint32(head[at:], n)
	}
	binary.LittleEndian.PutUint16(head, btfMagic)
	if got := declaredSize(head); got != 32+152+40 {
		t.Errorf("with a layout: %d", got)
	}
	head[4] = 24
	if got := declaredSize(head); got != 24+150 { // the last words are types already
		t.Errorf("without: %d", got)
	}
}
