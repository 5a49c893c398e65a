// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// A symSource is what "ksnoop sym" looks addresses up in.
type symSource interface {
	// lookup appends the frames that debug info has for an address.
	lookup(dst []debuginfo.Frame, addr uint64) []debuginfo.Frame
	lookupAll(addrs []uint64) [][]debuginfo.Frame
	// finish gives the outermost frame the name that the symbol table has.
	finish(frames []debuginfo.Frame, addr uint64) []debuginfo.Frame
	// address returns where a bare number is; appendAddress writes it.
	address(n uint64) (addr uint64, ok bool)
	appendAddress(dst []byte, addr uint64) []byte
	// named returns the address so far behind a symbol.
	named(name string, off uint64, module string) (addr uint64, ok bool)
	// mistyped reports whether there is nothing of that name, with a hint at what
	// may have been meant.
	mistyped(name string) (hint string, yes bool)
	// err tells what came in the way of an answer.
	err() error
	// missing tells which files would have had more to say.
	missing() error
	close() error
}

// A fileSource is a file, with addresses as in it.
type fileSource struct {
	*debuginfo.Info
	file    string
	section string // that bare numbers are offsets in
	stderr  io.Writer
	told    bool // that numbers could be in several sections
}

var _ symSource = (*fileSource)(nil)

// address implements symSource. A number in a relocatable file could be an
// offset in any section of code.
func (s *fileSource) address(n uint64) (uint64, bool) {
	switch {
	case s.section != "":
		return s.InSection(s.section, n)
	case !s.Relocatable():
		return n, true
	}
	sections := s.CodeAt(n)
	if len(sections) == 0 {
		return 0, false
	}
	if len(sections) > 1 && !s.told {
		s.told = true
		fmt.Fprintf(s.stderr, "ksnoop: %s has %d sections of code that begin at 0: %#x is taken for %s+%#x, the next is %s+%#x (-j chooses one)\n",
			s.file, len(sections), n, sections[0], n, sections[1], n)
	}
	return s.InSection(sections[0], n)
}

func (s *fileSource) appendAddress(dst []byte, addr uint64) []byte {
	if s.Relocatable() {
		if name, off, ok := s.SectionOf(addr); ok {
			return appendAddress(append(append(dst, name...), '+'), off)
		}
	}
	return appendAddress(dst, addr)
}

func (s *fileSource) lookup(dst []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	return s.Lookup(dst, addr)
}

func (s *fileSource) lookupAll(addrs []uint64) [][]debuginfo.Frame { return s.LookupAll(addrs) }

func (s *fileSource) finish(frames []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	if len(frames) == 0 {
		frames = append(frames, debuginfo.Frame{})
	}
	outer := &frames[len(frames)-1]
	if outer.Linkage == "" { // else it is the symbol's, but for what gcc appends to copies
		outer.Func = s.Outermost(addr, outer.Func)
	}
	return frames
}

func (s *fileSource) named(name string, off uint64, _ string) (uint64, bool) {
	if s.HasSection(name) {
		return s.InSection(name, off)
	}
	symbol, ok := s.SymbolNamed(name)
	return symbol.Addr + off, ok
}

func (s *fileSource) mistyped(name string) (string, bool) { return "", !s.HasSection(name) }

func (s *fileSource) err() error { return s.Err() }

func (s *fileSource) missing() error { return s.Missing() }

func (s *fileSource) close() error { return s.Close() }

// A kernelSource is a running kernel with its modules.
type kernelSource struct {
	view *kernel.View
	info *symbols.DebugInfo // nil if there is none
}

var _ symSource = (*kernelSource)(nil)

// newKernelSource opens the kernel whose files are below root. Without debug
// info there are still symbols, and stderr is told.
func newKernelSource(root string, f *symbolFlags, stderr io.Writer) (*kernelSource, error) {
	view := kernel.Open(os.DirFS(root))
	info, err := symbols.OpenDebugInfo(root, view, f.vmlinux)
	if err == nil {
		return &kernelSource{view, info}, nil
	}
	var absent *find.AbsentError
	var refusal *find.Refusal
	if !errors.As(err, &absent) && !errors.As(err, &refusal) {
		return nil, fmt.Errorf("%w; sym --exe takes addresses as in a file", err)
	}
	if err := view.Symbols(); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "ksnoop: no source lines:", err)
	return &kernelSource{view, nil}, nil
}

func (s *kernelSource) lookup(dst []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	if s.info == nil {
		return dst
	}
	return s.info.Vmlinux().Lookup(dst, addr)
}

func (s *kernelSource) lookupAll(addrs []uint64) [][]debuginfo.Frame {
	if s.info == nil {
		return make([][]debuginfo.Frame, len(addrs))
	}
	return s.info.Vmlinux().LookupAll(addrs)
}

func (s *kernelSource) finish(frames []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	symbol, ok := s.view.Symbol(addr)
	if !ok {
		return frames[:0] // an address that nobody has cannot have a line
	}
	if symbol.Module != "" && s.info != nil {
		frames = s.info.Lookup(frames[:0], addr, symbol.Module)
	}
	if len(frames) == 0 {
		return append(frames, debuginfo.Frame{Func: symbol.Name + string(symname.AppendOffset(nil, symbol.Offset))})
	}
	frames[len(frames)-1].Func, frames[len(frames)-1].Linkage = symbol.Name, ""
	return frames
}

func (s *kernelSource) address(n uint64) (uint64, bool) { return n, true }

func (s *kernelSource) appendAddress(dst []byte, addr uint64) []byte { return appendAddress(dst, addr) }

func (s *kernelSource) named(name string, off uint64, module string) (uint64, bool) {
	symbol, ok := s.view.SymbolNamed(name, module)
	return symbol.Addr + off, ok
}

func (s *kernelSource) mistyped(name string) (string, bool) {
	names := s.view.Nearest(name, 1)
	if len(names) == 0 || names[0] == name {
		return "", true
	}
	return "; " + suggest.DidYouMean(names[0]), true
}

func (s *kernelSource) err() error {
	if s.info == nil {
		return nil
	}
	return s.info.Err()
}

func (s *kernelSource) missing() error {
	if s.info == nil {
		return nil
	}
	return s.info.Missing()
}

func (s *kernelSource) close() error {
	if s.info == nil {
		return nil
	}
	return s.info.Close()
}

func appendAddress(b []byte, addr uint64) []byte { return fmt.Appendf(b, "0x%016x", addr) }
