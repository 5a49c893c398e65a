// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// maxBTF bounds BTF that is read from a file, in bytes. A vmlinux has 5 to 10 MB.
const maxBTF = 256 << 20

// usualBTF is what room is made for on the word of a header alone.
const usualBTF = 16 << 20

// readBTF returns a BTF blob and, if it was in an ELF file, the architecture.
func readBTF(file io.ReaderAt) (data []byte, arch string, err error) {
	magic := make([]byte, 4)
	if n, err := file.ReadAt(magic, 0); n < len(magic) {
		return nil, "", fmt.Errorf("reading BTF: %w", err)
	}
	if string(magic) != elf.ELFMAG {
		if !isBTF(magic) {
			return nil, "", errors.New("reading BTF: neither ELF nor BTF")
		}
		if data, err = readBlob(file); err != nil {
			return nil, "", fmt.Errorf("reading BTF: %w", err)
		}
		return data, "", nil
	}
	f, err := elfhead.Open(file)
	if err != nil {
		return nil, "", fmt.Errorf("reading ELF: %w", err)
	}
	if f.Section(".BTF.base") != nil {
		return nil, "", errors.New("reading BTF: a module with a base of its own; give the file in /sys/kernel/btf instead")
	}
	section := f.Section(".BTF")
	if section == nil {
		return nil, "", errors.New("reading BTF: the ELF file has no section .BTF")
	}
	if section.Size > maxBTF {
		return nil, "", fmt.Errorf("reading section .BTF: %w", tooMuchBTF(section.Size))
	}
	if data, err = section.Data(); err != nil {
		return nil, "", fmt.Errorf("reading section .BTF: %w", err)
	}
	return data, elfArch[f.Machine], nil
}

// readBlob reads as many bytes as the blob's header declares, however large the file is: a
// sparse file of terabytes takes 4 KB of disk.
func readBlob(file io.ReaderAt) ([]byte, error) {
	var head [btfLayoutHeaderSize]byte
	n, err := file.ReadAt(head[:], 0)
	if n < btfHeaderSize {
		return nil, errTruncated
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	size := declaredSize(head[:n])
	if size > maxBTF {
		return nil, tooMuchBTF(size)
	}
	blob := bytes.NewBuffer(make([]byte, 0, min(size, usualBTF)+bytes.MinRead))
	_, err = blob.ReadFrom(io.NewSectionReader(file, 0, int64(size)))
	return blob.Bytes(), err
}

// btfLayoutHeaderSize is the size of a header that also has a table of the lengths of
// types, as newer pahole writes.
const btfLayoutHeaderSize = 32

// declaredSize returns the end of the blob's last section, according to its header.
func declaredSize(head []byte) uint64 {
	order := byteOrder(head)
	size := uint64(order.Uint32(head[4:]))
	sections := head[8:min(uint64(len(head)), max(size, btfHeaderSize))]
	end := size
	for ; len(sections) >= 8; sections = sections[8:] {
		end = max(end, size+uint64(order.Uint32(sections))+uint64(order.Uint32(sections[4:])))
	}
	return end
}

func tooMuchBTF(size uint64) error {
	return fmt.Errorf("it claims to be %d bytes, the most are %d", size, maxBTF)
}

var elfArch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}
