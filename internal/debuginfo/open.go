// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// Open maps the debug info in a file.
func Open(path string, o Options) (*Info, error) {
	f, err := regular.Open(path)
	if named := new(fs.PathError); errors.As(err, &named) {
		err = named.Err // it names the same file
	}
	if err != nil {
		return nil, fmt.Errorf("open debug info %s: %w", path, err)
	}
	defer f.Close()
	return OpenFile(f, path, o)
}

// OpenFile maps the debug info in a regular file that is open. path is its name, in errors. f is not needed on.
func OpenFile(f *os.File, path string, o Options) (*Info, error) {
	l := &loader{path: cmp.Or(o.Beside, path), room: newRoom(o)}
	i, err := l.info(f, o)
	if err != nil {
		l.room.leave()
		return nil, errors.Join(fmt.Errorf("open debug info %s: %w", path, err), l.close()) // nothing refers to what is mapped
	}
	i.path, i.mapped = path, true
	return i, nil
}

// info reads the debug info in a file.
func (l *loader) info(f *os.File, o Options) (*Info, error) {
	m, err := l.bytes(f)
	if err != nil {
		return nil, err
	}
	l.mapped = append(l.mapped, m)
	return newMapped(m.data, o, l)
}

// newRoom returns the room of an Info.
func newRoom(o Options) *room { return &room{memory: cmp.Or(o.Memory, NewMemory(mostMemory))} }

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
	r := newRoom(o)
	if l != nil {
		r = l.room
	}
	done := false
	defer func() {
		if !done { // it may have been cut, which panics
			r.leave()
		}
	}()
	i, err := readInfo(data, o, l, r)
	done = err == nil
	return i, err
}

func readInfo(data []byte, o Options, l *loader, r *room) (*Info, error) {
	f, err := newFile(data, r)
	if err != nil {
		return nil, err
	}
	s, err := f.readSections()
	if err != nil {
		return nil, err
	}
	if s.empty() && !o.Stripped {
		return nil, ErrNone
	}
	if !s.empty() { // strip leaves the link of what it takes away
		if s.sup, err = l.supplement(f); err != nil {
			return nil, err
		}
	}
	if l != nil {
		s.halves = &halves{loader: l, files: map[inode]*dwoFile{}}
	} else if s.split() {
		return nil, errors.New("its debug info is in other files (-gsplit-dwarf)")
	}
	i := &Info{options: o, data: data, room: r, sections: s, units: newUnitIndex(s), places: newPlaces(f.File, o), loader: l}
	if s.sup != nil {
		i.supUnits = newUnitIndex(s.sup)
	}
	// A kernel linked to keep its relocations has them applied already.
	i.relocate = sync.OnceValue(func() error {
		if !s.relocatable {
			return nil
		}
		return f.relocate(s.slots(), i.places.bases)
	})
	i.relocateLate = sync.OnceValue(func() error {
		err := f.fill(s.late())
		if err == nil && s.relocatable {
			err = f.relocate(s.late(), i.places.bases)
		}
		return err
	})
	if !o.Lazy {
		if err := i.relocate(); err != nil {
			return nil, err
		}
	}
	if i.symbols, err = newSymbolTable(f, i.places.bases); err != nil {
		return nil, err
	}
	if s.empty() && len(i.symbols.symbols) == 0 {
		return nil, errors.New("neither debug info nor symbols")
	}
	i.stream = newReader(i, streamUnits)
	return i, nil
}
