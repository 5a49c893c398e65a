// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
)

// A link names the supplementary file, which holds what several files share, and says how
// to recognise it.
type link struct {
	path     string
	id       []byte
	standard bool // from .debug_sup (DWARF 5); else from .gnu_debugaltlink, with a build ID
}

// supLink returns the link to a supplementary file, or nil.
func supLink(f *elfFile) (*link, error) {
	if s := f.Section(".gnu_debugaltlink"); s != nil {
		b, err := f.linkContents(s)
		if err != nil {
			return nil, err
		}
		c := cursor{b: b}
		l := &link{path: string(c.text())}
		l.id = b[c.pos:]
		return l, nil
	}
	l, isSup, err := standardLink(f)
	if l == nil || isSup {
		return nil, err
	}
	return l, nil
}

// standardLink reads .debug_sup: a version, whether this is the supplementary file, the
// name of the other file, and a checksum that both have.
func standardLink(f *elfFile) (l *link, isSup bool, err error) {
	s := f.Section(".debug_sup")
	if s == nil {
		return nil, false, nil
	}
	b, err := f.linkContents(s)
	if err != nil {
		return nil, false, err
	}
	c := cursor{b: b}
	version := c.u16()
	isSup = c.u8() != 0
	l = &link{path: string(c.text()), standard: true}
	l.id = c.bytes(c.uleb())
	if c.bad || version < 2 || version > 5 {
		return nil, false, fmt.Errorf("section %s: malformed", s.Name)
	}
	return l, isSup, nil
}

// linkContents returns a section that has a path and an ID. Both are copied into paths and
// errors, so the section must not be longer than a path can be.
func (f *elfFile) linkContents(s *elf.Section) ([]byte, error) {
	if s.Size > unix.PathMax {
		return nil, fmt.Errorf("section %s: a path of %d bytes", s.Name, s.Size)
	}
	b, err := f.contents(s)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return b, nil
}

// candidates returns the paths where the supplementary file may be.
func (l *link) candidates(main string) []string {
	var paths []string
	if filepath.IsAbs(l.path) {
		paths = append(paths, l.path)
	} else {
		paths = append(paths, filepath.Join(filepath.Dir(main), l.path))
		if whole, err := filepath.EvalSymlinks(main); err == nil && whole != main {
			paths = append(paths, filepath.Join(filepath.Dir(whole), l.path))
		}
	}
	if file, ok := find.BuildID(l.id).File(); !l.standard && ok {
		paths = append(paths, "/"+file)
	}
	return append(paths, "/usr/lib/debug/.dwz/"+filepath.Base(l.path))
}

// supplement opens the supplementary file of f, if it has one.
func (l *loader) supplement(f *elfFile) (*sections, error) {
	link, err := supLink(f)
	if link == nil || err != nil {
		return nil, err
	}
	if l == nil {
		return nil, errors.New("a part of its debug info is in a file that it shares with others (dwz -m)")
	}
	var errs []error
	for _, path := range link.candidates(l.path) {
		s, err := l.openSupplement(path, link)
		if err == nil {
			return s, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", path, find.Cause(err)))
	}
	return nil, fmt.Errorf("the file that it shares with others (dwz -m) is missing: %w", errors.Join(errs...))
}

// openSupplement opens a candidate and checks that it is the right file.
func (l *loader) openSupplement(path string, link *link) (*sections, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, err
	}
	own, err := find.ELFBuildID(f.File)
	if link.standard {
		other, isSup, standardErr := standardLink(f)
		if err = standardErr; err == nil && (other == nil || !isSup) {
			err = errors.New("no supplementary file")
		}
		if other != nil {
			own = other.id
		}
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(own, link.id) {
		return nil, errors.New("belongs to another build")
	}
	s, err := f.readSections()
	if err != nil {
		return nil, err
	}
	s.bias = supBit
	return s, nil
}
