// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

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
