// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Options are how debug info is read. The zero value serves for a file whose
// code runs where it was linked to.
type Options struct {
	// Slide is how far the code was moved from where it was linked to, as
	// kernels are (KASLR): addresses that are looked up are higher by that.
	Slide uint64
	// Section tells where a section was loaded. A kernel module has no
	// addresses of its own.
	Section func(name string) (addr uint64, ok bool)
	// Relative cuts paths to those of the source tree: kernel/bpf/syscall.c.
	Relative bool
	// Lazy puts off the relocation of a module until something is looked up.
	// If it then fails, nothing is found.
	Lazy bool
}

// An Info is the debug info of one kernel, module or program. The file is
// mapped and must not be made shorter meanwhile.
type Info struct {
	options  Options
	data     []byte
	mapped   bool
	sections *sections
	relocate func() error // once, before anything is read
	locate   func() error // once, before the places of parameters are read
	units    *unitIndex
	symbols  *symbolTable
	stream   *reader
}

// Open maps the debug info in a file.
func Open(path string, o Options) (*Info, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open debug info %s: %w", path, err)
	}
	i, err := New(data, o)
	if err != nil {
		_ = unix.Munmap(data) // nothing refers to it
		return nil, fmt.Errorf("open debug info %s: %w", path, err)
	}
	i.mapped = true
	return i, nil
}

// New reads the debug info in the bytes of an ELF file, which it keeps.
func New(data []byte, o Options) (*Info, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s, err := readSections(data, f)
	if err != nil {
		return nil, err
	}
	if err := s.whole(f); err != nil {
		return nil, err
	}
	i := &Info{options: o, data: data, sections: s, units: newUnitIndex(s)}
	// A kernel that was linked to keep its relocations has them applied already.
	i.relocate = sync.OnceValue(func() error {
		if !s.relocatable {
			return nil
		}
		return relocate(s.slots(), data, f, o.Section)
	})
	i.locate = sync.OnceValue(func() error {
		err := fill(s.late(), data, f)
		if err == nil && s.relocatable {
			err = relocate(s.late(), data, f, o.Section)
		}
		return err
	})
	if !o.Lazy {
		if err := i.relocate(); err != nil {
			return nil, err
		}
	}
	i.symbols = newSymbolTable(data, f, o.Section)
	i.stream = newReader(i, streamUnits)
	return i, nil
}

// whole tells whether all debug info is in the file. What other files have is
// not read, and without it functions would have no names, or there would be none.
func (s *sections) whole(f *elf.File) error {
	for _, name := range []string{".gnu_debugaltlink", ".debug_sup"} {
		if f.Section(name) != nil {
			return errors.New("a part of its debug info is in a file that it shares with others (dwz -m), which is not supported")
		}
	}
	if len(s.addr) == 0 {
		return nil // split debug info has addresses there
	}
	const some = 64 // units of assembler source are not split
	c := cursor{b: s.info}
	for n := 0; n < some && c.pos < len(c.b); n++ {
		var u unit
		if u.openRoot(s, uint64(c.pos)) && u.split() {
			return errors.New("its debug info is in .dwo files (-gsplit-dwarf), which is not supported")
		}
		end, _ := c.length()
		if c.bad {
			break
		}
		c.pos = end
	}
	return nil
}

// split reports whether the unit is no more than a pointer to another file.
func (u *unit) split() bool {
	c := u.cursor(uint64(u.root))
	a := u.abbrevs.find(c.uleb())
	return u.kind == unitSkeleton || a != nil && slices.ContainsFunc(u.abbrevs.of(a), func(attr attribute) bool {
		return attr.name == attrDwoName || attr.name == attrGNUDwoName
	})
}

// Close gives the memory back. What was looked up stays valid.
func (i *Info) Close() error {
	if !i.mapped {
		return nil
	}
	i.mapped = false
	return unix.Munmap(i.data)
}
