// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// An image is what is known of an ELF file. What is read of the file later is its own: whoever runs a copy can change that
// at any time.
type image struct {
	*parsed
	of Version // the file

	silent    bool            // the file system has not answered, and is not asked for noCallers again
	noCallers map[uint64]bool // whether the address at an offset of the file is no return address, where that is known

	info *debuginfo.Info // nil if there is none, or it was not asked for

	// How stacks are unwound where no unwind information tells, if that was asked for; nil if the file does not tell either.
	frames *goFrames
	code   *codeFrames
	file   io.Closer // of frames and code
}

// A parsed has the functions of an ELF file, and its unwind information, which is nil if it was not asked for or there is none.
// It does not change any more once it is read: copies of a file, as in containers, have it once.
type parsed struct {
	machine  elf.Machine
	goCode   bool // it has code of Go
	loads    []elf.ProgHeader
	funcs    []function // sorted
	outer    []int32    // of each function the last one before that extends beyond its beginning, or -1; nil if none does
	labels   []function // while it is read: symbols that may be within functions
	open     []uint64   // where labels are that are functions: these extend up to the next, whichever that is
	names    int        // bytes of all names
	stripped bool       // it has no names but those that other files use
	buildID  string     // bytes; "" if it has none
	unwind   *unwind.Table
}

type function struct {
	addr, end uint64 // as linked
	name      string
}

// readUnwinding reads how stacks are unwound. It reports whether r is needed on.
func (m *image) readUnwinding(r io.ReaderAt) (kept bool, err error) {
	f, err := elfhead.Open(r)
	if err != nil {
		return false, err
	}
	m.readGoFrames(r, f)
	m.unwind, err = unwind.Read(r, f)
	if machine := unwind.MachineOf(f.Machine); machine != nil && f.Class == elf.ELFCLASS64 && m.frames == nil && m.uncovered() {
		m.code = &codeFrames{r, machine, m.loads, m.bounds, map[uint64]*unwind.Row{}}
	}
	return m.frames != nil || m.code != nil, err
}

// bounds returns where the function at a linked address begins and ends.
func (m *image) bounds(pc uint64) (lo, hi uint64, ok bool) {
	f, ok := m.find(pc)
	if !ok {
		return 0, 0, false
	}
	return f.addr, f.end, true
}

// uncovered reports whether some function has no unwind information.
func (m *parsed) uncovered() bool {
	return m.unwind == nil || slices.ContainsFunc(m.funcs, func(f function) bool { return !m.unwind.Covers(f.addr) })
}

// readImage reads the symbols of an ELF file. A stripped file still has dynamic symbols,
// and a Go program has the table that Go itself needs at run time.
func readImage(r io.ReaderAt) (*image, error) {
	f, err := elfhead.Open(r)
	if err != nil {
		return nil, err
	}
	m := &parsed{machine: f.Machine, goCode: goSection(f) != nil || f.Section(".go.buildinfo") != nil}
	if id, err := find.ELFBuildID(f); err == nil {
		m.buildID = string(id)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	read := map[elf.SectionType]bool{}
	for _, s := range f.Sections {
		// Linkers write one table of each kind. A hostile file may have 100,000 in the same place.
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || read[s.Type] {
			continue
		}
		read[s.Type] = true
		if err := m.addSymbols(r, f, s); err != nil {
			return nil, err
		}
	}
	if m.stripped = !read[elf.SHT_SYMTAB]; m.stripped {
		if err := m.addGo(r, f); err != nil {
			return nil, err
		}
	}
	m.sort()
	return &image{parsed: m}, nil
}

// addFile adds the functions of the symbol table of another file of the same build.
func (m *parsed) addFile(file fs.File) error {
	r, ok := file.(io.ReaderAt)
	if !ok {
		return errors.ErrUnsupported
	}
	f, err := elfhead.Open(r)
	if err != nil {
		return err
	}
	if id, err := find.ELFBuildID(f); err != nil || string(id) != m.buildID {
		return errors.New("it is of another build")
	}
	s := f.SectionByType(elf.SHT_SYMTAB)
	if s == nil {
		return nil
	}
	m.reopen()
	if err := m.addSymbols(r, f, s); err != nil {
		return err
	}
	m.sort()
	return nil
}

// addSymbols adds the functions of a symbol table. It reads the table in pieces, so entries
// that are not functions take no memory.
func (m *parsed) addSymbols(r io.ReaderAt, f *elf.File, s *elf.Section) error {
	size := uint64(elf.Sym64Size)
	if f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 || int(s.Link) >= len(f.Sections) || f.Sections[s.Link].Flags&elf.SHF_COMPRESSED != 0 {
		return nil // no linker produces that
	}
	if n := s.FileSize / size; n > mostSymbols {
		return fmt.Errorf("%s: %d symbols, the most are %d", s.Name, n, mostSymbols)
	}
	w := newWindow(r, s)
	var funcs, labels []nameless
	for off := uint64(0); off+size <= s.FileSize; off += size {
		b := w.at(off, int(size))
		if b == nil {
			break // end of file
		}
		fn, label, ok := functionOf(f, b)
		switch {
		case !ok:
			continue
		case len(funcs)+len(labels) == mostFunctions:
			return errManyFunctions
		case label:
			labels = append(labels, fn)
		default:
			funcs = append(funcs, fn)
		}
	}
	names := newWindow(r, f.Sections[s.Link])
	var err1, err2 error
	m.funcs, err1 = m.addNamed(m.funcs, len(m.labels), names, funcs)
	m.labels, err2 = m.addNamed(m.labels, len(m.funcs), names, labels)
	return cmp.Or(err1, err2)
}

var errManyFunctions = fmt.Errorf("more than %d functions", mostFunctions)

// functionOf decodes an entry of a symbol table, Elf64_Sym or Elf32_Sym. What is not said to be a function may be
// assembler code nevertheless, as musl's _start is: then it is a label, and so is what has no size, which may extend to its
// section's end.
func functionOf(f *elf.File, b []byte) (fn nameless, label, ok bool) {
	fn.name = f.ByteOrder.Uint32(b)
	info, section := b[4], f.ByteOrder.Uint16(b[6:])
	var size uint64
	if f.Class == elf.ELFCLASS64 {
		fn.addr, size = f.ByteOrder.Uint64(b[8:]), f.ByteOrder.Uint64(b[16:])
	} else {
		fn.addr, size = uint64(f.ByteOrder.Uint32(b[4:])), uint64(f.ByteOrder.Uint32(b[8:]))
		info, section = b[12], f.ByteOrder.Uint16(b[14:])
	}
	fn.end = fn.addr + size
	if elf.SectionIndex(section) == elf.SHN_UNDEF || fn.addr == 0 || fn.name == 0 {
		return fn, false, false
	}
	code := false
	if int(section) < len(f.Sections) {
		s := f.Sections[section]
		if code = s.Flags&elf.SHF_EXECINSTR != 0; size == 0 && fn.addr-s.Addr < s.Size {
			fn.end = s.Addr + s.Size
		}
	}
	switch elf.ST_TYPE(info) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		return fn, size == 0, true
	case elf.STT_NOTYPE:
		return fn, true, code && fn.end > fn.addr && elf.ST_BIND(info) != elf.STB_LOCAL
	}
	return fn, false, false
}

// addNamed reads the names of functions, in the order in which the file has them, and appends them to funcs, besides which
// there are so many others.
func (m *parsed) addNamed(funcs []function, others int, names *window, found []nameless) ([]function, error) {
	slices.SortStableFunc(found, func(a, b nameless) int { return cmp.Compare(a.name, b.name) })
	for _, fn := range found {
		name, ok := names.text(uint64(fn.name))
		if !ok || name == "" {
			continue
		}
		if m.names += len(name); m.names > mostNames {
			return nil, fmt.Errorf("names of functions take more than %d bytes", mostNames)
		}
		if len(funcs)+others >= mostFunctions {
			return nil, errManyFunctions
		}
		funcs = append(funcs, function{fn.addr, fn.end, name})
	}
	return funcs, nil
}

// sort sorts the functions and keeps one name for each address. Labels are functions if they are in no other, up to the next.
func (m *parsed) sort() {
	m.funcs = sorted(m.funcs)
	m.nest()
	var more []function
	for _, l := range m.labels {
		if _, ok := m.find(l.addr); !ok {
			more = append(more, l)
		}
	}
	m.labels = nil
	if len(more) == 0 {
		return
	}
	more = sorted(more)
	m.open = nil
	for _, l := range more {
		m.open = append(m.open, l.addr)
	}
	m.funcs = sorted(append(m.funcs, more...))
	for i := range m.funcs[:len(m.funcs)-1] {
		if f := &m.funcs[i]; len(more) > 0 && f.addr == more[0].addr {
			f.end, more = min(f.end, m.funcs[i+1].addr), more[1:]
		}
	}
	m.nest()
}

// reopen makes labels of the functions that were: more symbols are added, which they may lie in, or which may be the next.
func (m *parsed) reopen() {
	var rest []function
	for _, f := range m.funcs {
		if _, label := slices.BinarySearch(m.open, f.addr); label {
			m.labels = append(m.labels, f)
		} else {
			rest = append(rest, f)
		}
	}
	m.funcs, m.open = rest, nil
}

// nest finds the functions that others lie in, as in assembler code, or overlap.
func (m *parsed) nest() {
	m.outer = nil
	outerOf := func(i int) int {
		if m.outer == nil {
			return -1
		}
		return int(m.outer[i])
	}
	last := -1 // that may extend beyond the beginning of the next
	for i := range m.funcs {
		for last >= 0 && m.funcs[last].end <= m.funcs[i].addr {
			last = outerOf(last)
		}
		if last >= 0 && m.outer == nil {
			m.outer = slices.Repeat([]int32{-1}, len(m.funcs))
		}
		if last >= 0 {
			m.outer[i] = int32(last)
		}
		last = i
	}
}

// sorted sorts functions and keeps the first of each address.
func sorted(funcs []function) []function {
	slices.SortStableFunc(funcs, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	return slices.CompactFunc(funcs, func(a, b function) bool { return a.addr == b.addr })
}

// size returns about how many bytes of memory it takes.
func (m *parsed) size() int {
	const functionSize, loadSize = 32, 64
	return functionSize*cap(m.funcs) + 4*cap(m.outer) + 8*cap(m.open) + m.names + m.unwind.Size() + loadSize*cap(m.loads) + len(m.buildID)
}

// sum returns a hash of all that files must have in common for the same parsed. Nobody can make another file with it.
func (m *parsed) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	b := fmt.Appendf(nil, "%d %v %q %v %d ", m.machine, m.goCode, m.buildID, m.loads, len(m.funcs))
	for i := range m.funcs {
		f := &m.funcs[i]
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, f.addr), f.end)
		b = append(binary.AppendUvarint(b, uint64(len(f.name))), f.name...)
		if len(b) > mostName {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(b)
	m.unwind.Sum(h)
	h.Sum(sum[:0])
	return sum
}

// mostOuter is how many enclosing functions find tries.
const mostOuter = 16

// find returns the function at a linked address, the innermost.
func (m *parsed) find(addr uint64) (*function, bool) {
	i, found := slices.BinarySearchFunc(m.funcs, addr, func(f function, a uint64) int { return cmp.Compare(f.addr, a) })
	if !found {
		i--
	}
	for range mostOuter {
		switch {
		case i >= 0 && addr < m.funcs[i].end:
			return &m.funcs[i], true
		case i < 0 || m.outer == nil:
			return nil, false
		}
		i = int(m.outer[i])
	}
	return nil, false
}

// notELF reports whether err means that the file is not an ELF file with symbols. Processes
// map many such files.
func notELF(err error) bool {
	var format *elf.FormatError
	return errors.As(err, &format) || errors.Is(err, io.EOF)
}
