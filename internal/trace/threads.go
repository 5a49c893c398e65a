// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/threadctx"
	"github.com/ksnoop/ksnoop/internal/timeout"
)

const noRecords = "the context records of threads are not found"

// records finds where the threads of a process have the pointer to their context records: of the program and its libraries
// the first that has such a variable.
// It returns an error if the process has ended or is not ours to see, or if ctx ends.
func (p *programs) records(ctx context.Context, pid int, dir string, place *bpf.SpanPlace) error {
	files, err := process.MappedFiles(p.root, uint32(pid))
	if err != nil {
		return err
	}
	musl := false
	for i := range files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f := p.thread(&files[i])
		if f == nil {
			continue
		}
		musl = musl || strings.Contains(f.Interpreter, "/ld-musl-")
		if f.Variable == nil || place.Access != bpf.ThreadNone {
			continue
		}
		at, err := p.placeIn(ctx, pid, dir+"/mem", &files[i], f)
		switch {
		case errors.Is(err, fs.ErrPermission) || ctx.Err() != nil:
			return err
		case errors.Is(err, errMemory), errors.Is(err, errStuck):
			p.warn(noRecords, "pid", pid, "reason", err)
			return nil
		case err != nil: // the dynamic linker is at work, or has unloaded it; or it is being read
			p.log.Debug(noRecords, "pid", pid, "file", files[i].Path(), "reason", err)
			continue
		}
		place.Access, place.Thread, place.Module = bpf.ThreadStatic, at.Offset, at.Module
		if at.Module != 0 {
			place.Access = bpf.ThreadGlibc
		}
	}
	if musl && place.Access == bpf.ThreadGlibc {
		place.Access = bpf.ThreadMusl
	}
	return nil
}

// placeIn reads of a process where the variable of one of its files is, until ctx ends or for so long: the process may have had
// its memory from a file system that never answers.
func (p *programs) placeIn(ctx context.Context, pid int, memory string, m *process.Mapped, f *threadctx.File) (threadctx.Place, error) {
	bias, ok := m.Bias(f.Loads)
	if !ok {
		return threadctx.Place{}, os.ErrInvalid
	}
	return timeout.Do(ctx, p.reads, mostMemory, pid, func() (threadctx.Place, error) {
		mem, err := os.Open(memory)
		if err != nil {
			return threadctx.Place{}, err
		}
		defer mem.Close()
		return f.Variable.Place(mem, bias)
	})
}

// thread reads a file that a process has mapped, once. It returns nil if it cannot.
func (p *programs) thread(m *process.Mapped) *threadctx.File {
	in := m.Open(p.root)
	if in == nil {
		return nil
	}
	defer in.Close()
	key, err := process.VersionOf(in)
	if err != nil {
		return nil
	}
	if f, ok := p.threads[key]; ok {
		return f
	}
	r, ok := in.(io.ReaderAt)
	if !ok {
		return nil
	}
	f, err := threadctx.Read(r)
	if err != nil {
		p.warn(noRecords, "file", m.Path(), "reason", err)
	}
	if len(p.threads) >= mostKnown {
		clear(p.threads)
	}
	p.threads[key] = f
	return f
}
