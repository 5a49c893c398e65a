// SPDX-License-Identifier: Apache-2.0

// Package gospan finds out of a Go program's executable how the spans of the OpenTelemetry SDK
// (go.opentelemetry.io/otel/sdk/trace) lie in its memory: by its symbols and its debug info, which the go
// command leaves in unless it is told otherwise.
package gospan

import (
	"context"
	"debug/buildinfo"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ksnoop/ksnoop/internal/dw"
	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// A Layout says where a program has its spans. Addresses are as linked.
type Layout struct {
	// Table is the address of the table that stands before a span's address where it is used as the
	// interface trace.Span.
	Table uint64
	// TLS is where the thread has its goroutine, from the thread pointer. It means nothing on arm64.
	TLS int64
	// Offsets in a span: of the times when it began and ended, and of the numbers of its trace and its own.
	Began, Ended, Trace, Span uint32
	// Entry is the address at which the program begins.
	Entry uint64
}

// ErrNoSDK says that a program has no spans: it is not of Go, or is not linked with the SDK.
var ErrNoSDK = errors.New("not a Go program with the OpenTelemetry SDK")

// Limits on what is read of a file that somebody else has made.
const (
	mostSymbols   = 64 << 20  // bytes of symbols, and of their names; in memory they take some five times as much
	mostDebug     = 512 << 20 // bytes of debug info, decompressed
	mostBuildInfo = 16 << 20  // bytes that are read to find how it was built
)

const (
	sdk       = "go.opentelemetry.io/otel/sdk"
	spanType  = sdk + "/trace.recordingSpan"
	tableName = "itab.*" + spanType + ",go.opentelemetry.io/otel/trace.Span" // behind "go:", before Go 1.20 "go."
)

// Read reads an executable. It looks at the context where that may take long.
func Read(ctx context.Context, r io.ReaderAt) (*Layout, error) {
	f, err := elfhead.Open(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSDK, err)
	}
	if f.Section(".go.buildinfo") == nil || f.Class != elf.ELFCLASS64 {
		return nil, ErrNoSDK
	}
	l := &Layout{Entry: f.Entry, TLS: -8}
	if f.Section(".symtab") == nil {
		return nil, stripped(r)
	}
	if err := l.symbols(f); err != nil {
		return nil, err
	}
	return l, l.types(ctx, f)
}

// A limited reader reads so many bytes.
type limited struct {
	io.ReaderAt
	left int
}

func (l *limited) ReadAt(b []byte, off int64) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, elfhead.ErrLimit
	}
	return l.ReaderAt.ReadAt(b, off)
}

// stripped says what a program without symbols lacks.
func stripped(r io.ReaderAt) error {
	info, err := buildinfo.Read(&limited{r, mostBuildInfo})
	if err != nil {
		return ErrNoSDK
	}
	for _, m := range info.Deps {
		if m.Path == sdk {
			return errors.New("it has no symbols: build it without -ldflags=-s")
		}
	}
	return ErrNoSDK
}

// symbols finds what has a name.
func (l *Layout) symbols(f *elf.File) error {
	symbols, err := elfhead.Symbols(f, elf.SHT_SYMTAB, mostSymbols)
	if err != nil {
		return fmt.Errorf("its symbols: %w", err)
	}
	for i := range symbols {
		s := &symbols[i]
		switch {
		case strings.HasSuffix(s.Name, tableName) && len(s.Name) == len("go:")+len(tableName):
			l.Table = s.Value
		case s.Name == "runtime.tlsg" && elf.ST_TYPE(s.Info) == elf.STT_TLS:
			l.tls(f, s.Value)
		}
	}
	if l.Table == 0 {
		return ErrNoSDK
	}
	return nil
}

// tls places the thread's goroutine, which is so far into the program's thread-local storage. On x86-64 that ends
// where the thread pointer points to.
func (l *Layout) tls(f *elf.File, into uint64) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_TLS {
			align := max(p.Align, 1)
			l.TLS = int64(into) - int64((p.Memsz+align-1)/align*align)
		}
	}
}

// types finds the members of a span.
func (l *Layout) types(ctx context.Context, f *elf.File) error {
	if elfhead.DebugInfo(f) == nil {
		return errors.New("it has no debug info: build it without -ldflags=-w")
	}
	d, err := elfhead.DWARF(f, mostDebug)
	if err != nil {
		return fmt.Errorf("its debug info: %w", err)
	}
	span, err := structNamed(ctx, d, spanType)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		to   *uint32
		path []string
	}{
		{&l.Began, []string{"startTime", "wall"}},
		{&l.Ended, []string{"endTime", "wall"}},
		{&l.Trace, []string{"spanContext", "traceID"}},
		{&l.Span, []string{"spanContext", "spanID"}},
	} {
		if *m.to, err = member(span, m.path...); err != nil {
			return err
		}
	}
	// Times are read as two words.
	if ext, err := member(span, "startTime", "ext"); err != nil || ext != l.Began+8 {
		return errors.New("its time.Time is of a form that is not known")
	}
	return nil
}

// structNamed finds a type. It goes through functions, too: the go command does not say where one ends.
func structNamed(ctx context.Context, d *dwarf.Data, name string) (*dwarf.StructType, error) {
	for r := d.Reader(); ctx.Err() == nil; {
		e, err := r.Next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("its debug info: %w", err)
		case e == nil:
			return nil, fmt.Errorf("its debug info lacks %s", name)
		case e.Tag == dwarf.TagStructType && e.Val(dwarf.AttrName) == name:
			t, err := dw.NewTypes(d).Type(e.Offset)
			if s, ok := t.(*dwarf.StructType); err == nil && ok {
				return s, nil
			}
			return nil, fmt.Errorf("its debug info of %s: %w", name, err)
		}
	}
	return nil, context.Cause(ctx)
}

// member returns the offset of a member of a member.
func member(s *dwarf.StructType, path ...string) (off uint32, err error) {
	var t dwarf.Type = s
	for _, name := range path {
		for {
			def, ok := t.(*dwarf.TypedefType)
			if !ok {
				break
			}
			t = def.Type
		}
		in, ok := t.(*dwarf.StructType)
		found := false
		for i := 0; ok && i < len(in.Field); i++ {
			if f := in.Field[i]; f.Name == name {
				off, t, found = off+uint32(f.ByteOffset), f.Type, true
				break
			}
		}
		if !found {
			return 0, fmt.Errorf("its %s has no %s", s.StructName, strings.Join(path, "."))
		}
	}
	if off > 1<<16 {
		return 0, fmt.Errorf("its %s has %s at %d", s.StructName, strings.Join(path, "."), off)
	}
	return off, nil
}
