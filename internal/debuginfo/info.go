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

// Options say how to read debug info. The zero value is right for a file whose code runs
// where it was linked.
type Options struct {
	// slide is how far the code was moved from where it was linked, in bytes: kernels are
	// moved by KASLR. Look-ups take addresses with the slide.
	slide uint64
	// Section returns the address at which a section was loaded. A kernel module has no
	// addresses of its own.
	Section func(name string) (addr uint64, ok bool)
	// Apart gives each section of a relocatable file its own range of addresses; in the
	// file, all of them start at 0. InSection and SectionOf translate.
	Apart bool
	// Relative makes paths relative to the source tree: kernel/bpf/syscall.c.
	Relative bool
	// Stripped also accepts a file without debug info. Its symbol table then tells
	// functions, but no lines.
	Stripped bool
	// Lazy delays the relocation of a module until the first look-up. If it fails then,
	// nothing is found, and Err says why.
	Lazy bool
}

// An Info is the debug info of one kernel, module or program. The file stays mapped; if it
// is truncated meanwhile, Err says so.
type Info struct {
	path         string // "" if unknown
	fault        atomic.Pointer[error]
	options      Options
	data         []byte
	mapped       bool
	sections     *sections
	places       places
	relocate     func() error // runs once, before anything is read
	relocateLate func() error // runs once, before places of parameters are read
	units        *unitIndex
	supUnits     *unitIndex // of the supplementary file, if any
	loader       *loader    // nil if only the file's bytes are known
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
		_ = errors.Join(l.close(), unix.Munmap(data)) // nothing refers to the mapping
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

// newInfo reads the debug info in the bytes of an ELF file, and keeps these. Without l, it
// cannot open other files.
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
	// A kernel linked to keep its relocations has them applied already.
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

// split reports whether the debug info is in .dwo files.
func (s *sections) split() bool {
	if len(s.addr) == 0 {
		return false // split debug info has addresses there
	}
	const some = 64 // units of assembler code are never split
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

// Missing returns which .dwo file, or how many, were not found. For their code, lines are
// known but not inlined functions.
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

// Close unmaps the files. Results of look-ups stay valid.
func (i *Info) Close() error {
	if !i.mapped {
		return nil
	}
	i.mapped = false
	return errors.Join(i.loader.close(), unix.Munmap(i.data))
}
