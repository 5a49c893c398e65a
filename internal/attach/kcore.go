// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// A memory reads the kernel's memory.
type memory interface {
	read(to []byte, addr uint64) error
	Close() error
}

// A kcore is the kernel's memory as /proc/kcore has it: code as it is executed, with all that
// was patched since boot.
type kcore struct {
	file  *os.File
	parts []elf.ProgHeader
}

// kcoreFile is where the kernel shows its memory.
const kcoreFile = "/proc/kcore"

func openKcore() (*kcore, error) {
	f, err := os.Open(kcoreFile)
	if err != nil {
		return nil, fmt.Errorf("reading the kernel's code: %w", err)
	}
	headers, err := elf.NewFile(f)
	if err != nil { // a container has an empty file in its place
		return nil, errors.Join(fmt.Errorf("reading the kernel's code: %s: %w", kcoreFile, err), f.Close())
	}
	k := &kcore{file: f}
	for _, p := range headers.Progs {
		if p.Type == elf.PT_LOAD {
			k.parts = append(k.parts, p.ProgHeader)
		}
	}
	return k, nil
}

func (k *kcore) read(to []byte, addr uint64) error {
	for i := range k.parts {
		p := &k.parts[i]
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz && uint64(len(to)) <= p.Filesz-(addr-p.Vaddr) {
			_, err := k.file.ReadAt(to, int64(p.Off+(addr-p.Vaddr)))
			return err
		}
	}
	return fmt.Errorf("%s has nothing at %#x", kcoreFile, addr)
}

func (k *kcore) Close() error { return k.file.Close() }
