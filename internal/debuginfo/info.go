// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/elfhead"
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
	// Apart gives each section of a relocatable file addresses of its own: in
	// such a file all of them begin at 0. InSection and SectionOf translate.
	Apart bool
	// Relative cuts paths to those of the source tree: kernel/bpf/syscall.c.
	Relative bool
	// Stripped takes a file without debug info as well. Its symbol table then
	// tells functions, and nothing tells lines.
	Stripped bool
	// Lazy puts off the relocation of a module until something is looked up.
	// If it then fails, nothing is found and Err says why.
	Lazy bool
}

// An Info is the debug info of one kernel, module or program. The file is
// mapped; if it is made shorter meanwhile, Err says so.
type Info struct {
	path         string // "" if it is not known
	fault        atomic.Pointer[error]
	options      Options
	data         []byte
	mapped       bool
	sections     *sections
	places       places
	relocate     func() error // once, before anything is read
	relocateLate func() error // once, before the places of parameters are read
	units        *unitIndex
	supUnits     *unitIndex // of the supplementary file, if there is one
	loader       *loader    // nil if only the bytes of the file are known
	symbols      *symbolTable
	stream       *reader
}

// Open maps the debug info in a file.
func Open(path string, o Options) (*Info, error) {
	data, err := mapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open debug info %s: %w", path, err)
	}
	l := &loader{path: path}
	i, err := newMapped(data, o, l)
	if err != nil {
		_ = errors.Join(l.close(), unix.Munmap(data)) // nothing refers to it
		return nil, fmt.Errorf("open debug info %s: %w", path, err)
	}
	i.path, i.mapped = path, true
	return i, nil
}

func newMapped(data []byte, o Options, l *loader) (i *Info, err error) {
	defer func(before bool) {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			var ok bool
			if err, ok = asFault(r); !ok {
				panic(r)
			}
		}
	}(debug.SetPanicOnFault(true))
	return newInfo(data, o, l)
}

// newInfo reads the debug info in the bytes of an ELF file, which it keeps. Without l it
// does not have what is in other files.
func newInfo(data []byte, o Options, l *loader) (*Info, error) {
	f, err := elfhead.Open(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s, err := readSections(data, f)
	if err != nil {
		return nil, err
	}
	if s.empty() && !o.Stripped {
		return nil, errors.New("no debug info")
	}
	if s.sup, err = l.supplement(data, f); err != nil {
		return nil, err
	}
	if l != nil {
		s.halves = &halves{loader: l}
	} else if s.split() {
		return nil, errors.New("its debug info is in other files (-gsplit-dwarf)")
	}
	i := &Info{options: o, data: data, sections: s, units: newUnitIndex(s), places: newPlaces(f, o), loader: l}
	if s.sup != nil {
		i.supUnits = newUnitIndex(s.sup)
	}
	// A kernel that was linked to keep its relocations has them applied already.
	i.relocate = sync.OnceValue(func() error {
		if !s.relocatable {
			return nil
		}
		return relocate(s.slots(), data, f, i.places.bases)
	})
	i.relocateLate = sync.OnceValue(func() error {
		err := fill(s.late(), data, f)
		if err == nil && s.relocatable {
			err = relocate(s.late(), data, f, i.places.bases)
		}
		return err
	})
	if !o.Lazy {
		if err := i.relocate(); err != nil {
			return nil, err
		}
	}
	if i.symbols, err = newSymbolTable(data, f, i.places.bases); err != nil {
		return nil, err
	}
	if s.empty() && len(i.symbols.symbols) == 0 {
		return nil, errors.New("neither debug info nor symbols")
	}
	i.stream = newReader(i, streamUnits)
	return i, nil
}

// split reports whether debug info is in .dwo files.
func (s *sections) split() bool {
	if len(s.addr) == 0 {
		return false // split debug info has addresses there
	}
	const some = 64 // units of assembler source are not split
	c := cursor{b: s.info}
	for n := 0; n < some && c.pos < len(c.b); n++ {
		var u unit
		if u.openRoot(s, uint64(c.pos)) && u.dwoName != nil {
			return true
		}
		end, _ := c.length()
		if c.bad {
			break
		}
		c.pos = end
	}
	return false
}

// Missing returns which .dwo file, or how many, were not found: of their code
// lines are known, and no inlined functions.
func (i *Info) Missing() error {
	h := i.sections.halves
	if h == nil {
		return nil
	}
	h.loader.mu.Lock()
	defer h.loader.mu.Unlock()
	if h.count > 1 {
		return fmt.Errorf("%w (and %d more)", h.missing, h.count-1)
	}
	return h.missing
}

// Close gives the memory back. What was looked up stays valid.
func (i *Info) Close() error {
	if !i.mapped {
		return nil
	}
	i.mapped = false
	return errors.Join(i.loader.close(), unix.Munmap(i.data))
}
