// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
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

// A Text reads the code of the running kernel, as it is in memory.
type Text struct{ memory memory }

// OpenText opens the code of the running kernel.
func OpenText() (*Text, error) {
	m, err := openKcore()
	if err != nil {
		return nil, err
	}
	return &Text{m}, nil
}

// Read returns the code of a symbol, without what the kernel keeps behind it for the next function.
func (t *Text) Read(s kernel.Symbol) ([]byte, error) {
	if s.Size > code.MaxCode {
		return nil, fmt.Errorf("%s has %d bytes of code", s.Name, s.Size)
	}
	text := make([]byte, s.Size)
	if err := t.memory.read(text, s.Addr); err != nil {
		return nil, err
	}
	return code.BeforePointer(runtime.GOARCH, text, s.Addr), nil
}

// Close closes it.
func (t *Text) Close() error { return t.memory.Close() }
