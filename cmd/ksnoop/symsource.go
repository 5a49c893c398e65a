// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A symSource is what "ksnoop sym" looks addresses up in.
type symSource interface {
	// lookup appends the frames that debug info has for an address.
	lookup(dst []debuginfo.Frame, addr uint64) []debuginfo.Frame
	lookupAll(addrs []uint64) [][]debuginfo.Frame
	// finish gives the outermost frame the name that the symbol table has.
	finish(frames []debuginfo.Frame, addr uint64) []debuginfo.Frame
	named(name, module string) (addr uint64, ok bool)
	close() error
}

// A fileSource is a file, with addresses as in it.
type fileSource struct{ *debuginfo.Info }

var _ symSource = fileSource{}

func (s fileSource) lookup(dst []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	return s.Lookup(dst, addr)
}

func (s fileSource) lookupAll(addrs []uint64) [][]debuginfo.Frame { return s.LookupAll(addrs) }

func (s fileSource) finish(frames []debuginfo.Frame, addr uint64) []debuginfo.Frame {
	if len(frames) == 0 {
		frames = append(frames, debuginfo.Frame{})
	}
	outer := &frames[len(frames)-1]
	outer.Func = s.Outermost(addr, outer.Func)
	return frames
}

func (s fileSource) named(name, _ string) (uint64, bool) {
	symbol, ok := s.SymbolNamed(name)
	return symbol.Addr, ok
}

func (s fileSource) close() error { return s.Close() }

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
	var absent *debuginfo.AbsentError
	var refusal *debuginfo.Refusal
	if !errors.As(err, &absent) && !errors.As(err, &refusal) {
		return nil, fmt.Errorf("%w; sym --exe takes addresses as in a file", err)
	}
	if err := view.Symbols(); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "ksnoop: symbols only, no source lines or inlined functions:", err)
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
		return append(frames, debuginfo.Frame{Func: fmt.Sprintf("%s+%#x", symbol.Name, symbol.Offset)})
	}
	frames[len(frames)-1].Func = symbol.Name
	return frames
}

func (s *kernelSource) named(name, module string) (uint64, bool) {
	symbol, ok := s.view.SymbolNamed(name, module)
	return symbol.Addr, ok
}

func (s *kernelSource) close() error {
	if s.info == nil {
		return nil
	}
	return s.info.Close()
}
