// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// A contents is what was read of a file.
type contents struct {
	image   *image // nil: it has no functions
	err     error  // why
	dropped bool   // it is to be looked at again
}

// An alike is what all files have in common that were opened as one fileID. Any user can make such a file: in a mount namespace of
// one's own, names are free, and files have the build IDs that they claim.
type alike struct {
	contents
	first *contents
}

var errDiffer = errors.New("files of this name differ, and the one of this process cannot be opened any more")

// add takes note of another file.
func (a *alike) add(c *contents) {
	switch {
	case c == a.first || a.err == errDiffer:
	case a.image != nil && c.image != nil && a.image.parsed == c.image.parsed:
		a.image = &image{parsed: c.image.parsed} // the rest may differ
	case a.image != c.image: // not both nil
		a.image, a.err = nil, errDiffer
	}
}

// looked are the files of a process that were looked at. A child has those of its parent, but not the other way round: it may
// have become another user's.
type looked struct {
	at     map[fileID]*contents
	shared bool // by parent and child
}

// fork returns what a child has.
func (l *looked) fork() looked {
	l.shared = true
	return *l
}

// mostLooked is how many files all processes together remember that they have looked at, also those of which a copy was made since.
const mostLooked = 1 << 20

// remember takes note of a file that a process has looked at. If there are too many, all are looked at again: each child of a process
// may have a copy of what that has.
func (s *Symbols) remember(l *looked, id fileID, c *contents) {
	more := 1
	if l.shared {
		more += len(l.at)
	}
	if s.lookedAt += more; s.lookedAt > mostLooked {
		s.forgetLooked()
		s.lookedAt = 1
	}
	l.add(id, c)
}

func (s *Symbols) forgetLooked() {
	for _, space := range s.spaces {
		space.looked = looked{}
	}
	if s.lives == nil {
		return
	}
	for _, own := range s.lives.of {
		for _, n := range own {
			n.looked = looked{}
		}
	}
}

func (l *looked) add(id fileID, c *contents) {
	if l.shared {
		l.at, l.shared = maps.Clone(l.at), false
	}
	if l.at == nil {
		l.at = map[fileID]*contents{}
	}
	l.at[id] = c
}

// looked returns which files of the process were looked at.
func (p *Process) looked() *looked {
	switch {
	case p.life != nil:
		return &p.life.looked
	case p.space != nil:
		return &p.space.looked
	}
	return &looked{}
}

// inProc returns the number under which /proc has what the process has mapped; 0 if it has not. After the end of the process, another
// one may have its number.
func (p *Process) inProc() uint32 {
	if p.life != nil && p.life.over {
		return 0
	}
	return p.pid
}

// image returns the functions of a mapped file, nil if they cannot be read. Another process may have the file that this one has
// no more.
func (p *Process) image(m *mapping) (*image, error) {
	if m.file.path == vdso {
		return p.symbols.vdso().image, nil
	}
	looked := p.looked()
	c := looked.at[m.file]
	if c == nil || c.dropped {
		if c = p.contents(m); c == nil {
			return nil, nil
		}
		p.symbols.remember(looked, m.file, c)
	}
	return c.image, c.err
}

// contents looks at a mapped file. It returns nil if nothing is known of that.
func (p *Process) contents(m *mapping) *contents {
	s := p.symbols
	f, err := openMapped(s.root, p.inProc(), m)
	switch {
	case err != nil:
		return late(err)
	case f == nil:
		if a := s.named[m.file]; a != nil {
			return &a.contents
		}
		return nil
	}
	c := s.contents(&described{File: f, pid: p.pid, mapped: m.file})
	if regular.Unanswered(c.err) {
		return c
	}
	if a := s.named[m.file]; a != nil {
		a.add(c)
		return c
	}
	if len(s.named) >= mostSpaces {
		s.dropNamed()
	}
	s.named[m.file] = &alike{*c, c}
	return c
}

// contents returns what a file has, which it reads and closes unless that is known.
func (s *Symbols) contents(f *described) *contents {
	of, unknown := VersionOf(f.File)
	if c := s.files[of]; c != nil && unknown == nil {
		f.Close()
		return c
	}
	img, err := s.read(f)
	if regular.Refused(err) {
		return late(err)
	}
	if notELF(err) {
		err = nil
	}
	if img != nil {
		img.of = of
	}
	c := s.keep(img, err)
	if unknown == nil {
		s.files[of] = c
	}
	return c
}

// late returns the contents of a file whose file system does not answer. It is not asked again, unless it was not asked at all.
func late(err error) *contents { return &contents{err: err, dropped: regular.Refused(err)} }

// read reads a file, and closes it when it is needed no more.
func (s *Symbols) read(f *described) (img *image, err error) {
	kept := false
	defer func() {
		if !kept {
			f.Close()
		}
	}()
	r, ok := f.File.(io.ReaderAt)
	if !ok {
		return nil, nil
	}
	img, err = readImage(r)
	if err = cmp.Or(unanswered(f.File), err); err != nil {
		return nil, err
	}
	f.id = img.buildID
	s.unlined.add(s.addInstalled(img))
	s.describe(img, f)
	if !s.unwinds {
		return img, nil
	}
	const mostOpen = 256
	if kept, _ = img.readUnwinding(r); kept && s.open < mostOpen {
		img.file = f.File
		s.open++
	} else if kept {
		kept, img.frames, img.code = false, nil, nil
	}
	return img, nil // without unwind information, stacks go by frame pointers
}

// mostInstalled is how many files are read for the names of stripped ones. Whoever makes files with the build ID of a large one has it
// read for each.
const mostInstalled = 1 << 9

var errManyInstalled = fmt.Errorf("only %d files of /usr/lib/debug were read", mostInstalled)

// addInstalled adds the names that distributions install for a stripped file. Without, it has those that are in the file. The error says
// why there are some and they are not read.
func (s *Symbols) addInstalled(img *image) error {
	name, ok := find.BuildID(img.buildID).File()
	if !ok || !img.stripped {
		return nil
	}
	file, err := regular.OpenIn(s.root, name, 0)
	if errors.Is(err, fs.ErrNotExist) { // as of most
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if s.installed == mostInstalled {
		return errManyInstalled
	}
	s.installed++
	more := *img.parsed
	if err := more.addFile(file); err != nil {
		return fmt.Errorf("/%s: %w", name, cmp.Or(unanswered(file), err))
	}
	img.parsed = &more
	return nil
}

// mostFiles is how many files are remembered, most of which are copies.
const mostFiles = 4 * mostSpaces

// keep returns the contents of a file, which has what its copies have. If all together becomes too large, it drops the others: a
// process may map any number of large files.
func (s *Symbols) keep(img *image, err error) *contents {
	c := &contents{image: img, err: err}
	var sum [sha256.Size]byte
	more := 0
	if img != nil {
		if sum = img.sum(); s.copies[sum] == nil {
			more = img.size()
		}
	}
	if s.kept+more+s.keptGenerated > mostKept || len(s.copies) >= mostSpaces || len(s.files) >= mostFiles {
		s.drop()
	}
	switch {
	case img == nil:
	case s.copies[sum] != nil:
		img.parsed = s.copies[sum]
	default:
		s.copies[sum] = img.parsed
		s.kept += img.size()
	}
	return c
}

// drop forgets all files.
func (s *Symbols) drop() {
	for _, c := range s.files {
		s.closeImage(c.image)
		*c = contents{dropped: true}
	}
	clear(s.files)
	clear(s.copies)
	s.kept = 0
	s.forgetRows()
	s.dropNamed()
	s.dropGenerated()
}

func (s *Symbols) dropNamed() {
	for _, a := range s.named {
		a.contents = contents{dropped: true}
	}
	clear(s.named)
}

func (s *Symbols) closeImage(img *image) {
	if img == nil {
		return
	}
	if img.file != nil {
		img.file.Close()
		s.open--
	}
	if img.info != nil {
		s.unlined.addInfo(img.info, s.lines.Inlined)
		img.info.Close()
		s.infos--
	}
}
