// SPDX-License-Identifier: Apache-2.0

package gospan

import (
	"bytes"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"testing"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// A sparse file has something at its beginning and then zeros, so far as anybody reads.
type sparse struct {
	head []byte
	read int
}

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	if s.read += len(b); s.read > 1<<30 {
		return 0, errors.New("who reads so much takes all memory")
	}
	clear(b)
	if off < int64(len(s.head)) {
		copy(b, s.head[off:])
	}
	return len(b), nil
}

// program writes the head of a program with sections that are all at the same place, which starts with some contents.
func program(t *testing.T, contents string, sections ...elf.Section64) *sparse {
	t.Helper()
	const size, at = 1 << 40, 1 << 12 // of the segment, and where it is
	names := []byte("\x00.go.buildinfo\x00.symtab\x00.strtab\x00")
	sections = append([]elf.Section64{{}, {Type: uint32(elf.SHT_STRTAB), Off: at / 2, Size: uint64(len(names))}, {Name: 1, Type: uint32(elf.SHT_PROGBITS), Addr: at, Off: at, Size: size}}, sections...)
	header := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: 128, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 1}
	var b bytes.Buffer
	for _, part := range []any{&header, &elf.Prog64{Type: uint32(elf.PT_LOAD), Vaddr: at, Off: at, Filesz: size, Memsz: size}, make([]byte, 8), sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	head := make([]byte, at)
	copy(head, b.Bytes())
	copy(head[at/2:], names)
	return &sparse{head: append(head, contents...)}
}

// TestSparse: a file that claims a lot does not take much.
func TestSparse(t *testing.T) {
	inline := "\xff Go buildinf:\x08\x02" + string(make([]byte, 16))
	for name, test := range map[string]struct {
		file *sparse
		want error
	}{
		"without an end":   {program(t, ""), ErrNoSDK},
		"with a long text": {program(t, inline+string(binary.AppendUvarint(nil, 1<<39))), ErrNoSDK},
		"with symbols": {program(t, "", elf.Section64{Name: 15, Type: uint32(elf.SHT_SYMTAB), Off: 1 << 12, Size: 240 << 20, Link: 4},
			elf.Section64{Name: 23, Type: uint32(elf.SHT_STRTAB), Off: 1 << 12, Size: 1}), elfhead.ErrLimit},
	} {
		if _, err := Read(t.Context(), test.file); !errors.Is(err, test.want) || test.file.read > 2*mostBuildInfo {
			t.Errorf("%s: %v, %d bytes read", name, err, test.file.read)
		}
	}
}

// TestNested: functions within each other without end, which the standard library passes over by recursion. The walk ends
// with its context.
func TestNested(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 24)) // the walk would need 1 GB for a file of 16 MB
	abbreviations := []byte{1, byte(dwarf.TagCompileUnit), 1, 0, 0, 2, byte(dwarf.TagSubprogram), 1, 0, 0, 0}
	entries := append([]byte{4, 0, 0, 0, 0, 0, 8, 1}, bytes.Repeat([]byte{2}, 1<<20)...)
	d, err := dwarf.New(abbreviations, nil, nil, append(binary.LittleEndian.AppendUint32(nil, uint32(len(entries))), entries...), nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := structNamed(t.Context(), d, spanType); err == nil || err.Error() != "its debug info lacks "+spanType {
		t.Errorf("%v, %v", s, err)
	}
	ended, stop := context.WithCancelCause(t.Context())
	slow := errors.New("it takes long")
	stop(slow)
	if s, err := structNamed(ended, d, spanType); err != slow {
		t.Errorf("%v, %v", s, err)
	}
}
