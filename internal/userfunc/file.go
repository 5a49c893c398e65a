// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// Limits on what is read of one file. Browsers, the largest programs known, have half as much.
const (
	mostSymbols = 1 << 23 // entries of a table
	mostNames   = 1 << 28 // bytes of the section that has their names, and of all names
)

// A File is a program or a shared library.
type File struct {
	Path string
	// Identity is that of the file that was read.
	Identity Identity
	// Stripped says that the file has only the names that it shares with others.
	Stripped bool
	// Go says that the program is written in Go. Its functions take their arguments where
	// Go's own convention has them, and must not have their returns probed: Go moves stacks.
	Go bool

	arch  string
	loads []elf.ProgHeader
	funcs []Function // by name
}

// A Function is one of a file.
type Function struct {
	Name    string
	Version string // of a symbol that a library has in several; may be empty
	Default bool   // the version that programs are linked with today
	Addr    uint64 // as linked
	Size    uint64 // 0: unknown
	// Chooser says that the code is not the function's: it runs once, to choose one of several
	// functions for the CPU (STT_GNU_IFUNC).
	Chooser bool
}

// machines are the architectures whose functions can be probed, as Go calls them. It is never changed.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Open reads the functions of a file. arch is that of the running kernel.
func Open(path, arch string) (*File, error) {
	r, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := read(r, arch)
	if err != nil {
		return nil, err
	}
	f.Path, f.Identity = path, identify(info)
	return f, nil
}

// read is Open without a path.
func read(r io.ReaderAt, arch string) (*File, error) {
	e, err := elfhead.Open(r)
	if err != nil {
		return nil, fmt.Errorf("it is not an ELF file that can be read: %w", err)
	}
	defer e.Close()
	switch {
	case e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN:
		return nil, errors.New("it is neither a program nor a shared library")
	case e.Class != elf.ELFCLASS64:
		return nil, fmt.Errorf("it is a 32-bit program for %s, and only 64-bit ones can be traced", e.Machine)
	case machines[e.Machine] != arch:
		return nil, fmt.Errorf("it is a program for %s, and the machine is %s", cmp.Or(machines[e.Machine], e.Machine.String()), arch)
	}
	f := &File{arch: arch, Stripped: e.SectionByType(elf.SHT_SYMTAB) == nil, Go: e.Section(".gopclntab") != nil || e.Section(".go.buildinfo") != nil}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			f.loads = append(f.loads, p.ProgHeader)
		}
	}
	for _, s := range e.Sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM {
			continue
		}
		if n := s.FileSize / elf.Sym64Size; n > mostSymbols {
			return nil, fmt.Errorf("it has a table of %d symbols, and the most are %d", n, mostSymbols)
		}
		if int(s.Link) < len(e.Sections) && e.Sections[s.Link].Size > mostNames {
			return nil, fmt.Errorf("names of symbols take %d bytes, and the most are %d", e.Sections[s.Link].Size, mostNames)
		}
	}
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		symbols, err := elfhead.Symbols(e, kind, mostNames)
		if errors.Is(err, elfhead.ErrLimit) {
			return nil, err
		}
		for i := range symbols { // tables that are missing or broken have none
			f.add(&symbols[i])
		}
	}
	slices.SortStableFunc(f.funcs, func(a, b Function) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Addr, b.Addr), strings.Compare(b.Version, a.Version))
	})
	f.funcs = slices.CompactFunc(f.funcs, func(a, b Function) bool { return a.Name == b.Name && a.Addr == b.Addr && a.Version == b.Version })
	return f, nil
}

// add adds a symbol if it is a function that is in the file.
func (f *File) add(s *elf.Symbol) {
	kind := elf.ST_TYPE(s.Info)
	if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || s.Section == elf.SHN_UNDEF || s.Name == "" {
		return
	}
	if _, ok := f.offset(s.Value); !ok {
		return
	}
	fn := Function{Name: s.Name, Version: s.Version, Addr: s.Value, Size: s.Size, Chooser: kind == elf.STT_GNU_IFUNC}
	fn.Default = s.HasVersion && !s.VersionIndex.IsHidden()
	if name, version, ok := strings.Cut(s.Name, "@"); ok && name != "" { // as .symtab has them
		fn.Name, fn.Version, fn.Default = name, strings.TrimPrefix(version, "@"), strings.HasPrefix(version, "@")
	}
	f.funcs = append(f.funcs, fn)
}

// offset returns where in the file the byte at a linked address is. Only code counts.
func (f *File) offset(addr uint64) (uint64, bool) {
	for _, p := range f.loads {
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// Named returns the functions that a name or glob selects, one for each address. Of several
// versions of a symbol, a bare name means the one that programs are linked with today;
// "name@version" means another.
func (f *File) Named(pattern string) (found []Function) {
	bare, version, versioned := strings.Cut(pattern, "@")
	version = strings.TrimPrefix(version, "@")
	for i := range f.funcs {
		fn := &f.funcs[i]
		if glob.Match(pattern, fn.Name) || versioned && glob.Match(bare, fn.Name) && glob.Match(version, fn.Version) {
			found = append(found, *fn)
		}
	}
	if !versioned && !glob.Is(pattern) && slices.ContainsFunc(found, func(fn Function) bool { return fn.Default }) {
		found = slices.DeleteFunc(found, func(fn Function) bool { return fn.Version != "" && !fn.Default })
	}
	taken := map[uint64]bool{}
	return slices.DeleteFunc(found, func(fn Function) bool {
		known := taken[fn.Addr]
		taken[fn.Addr] = true
		return known
	})
}

// Names yields the names of all functions, in order; one may come several times.
func (f *File) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f.funcs {
			if !yield(f.funcs[i].Name) {
				return
			}
		}
	}
}
