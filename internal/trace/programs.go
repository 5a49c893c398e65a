// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/gospan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// programs tells the engine which processes are Go programs with spans, and where they have them: at first of all
// processes, then of each that the engine asks for by a session without a parent.
type programs struct {
	proc      string // where /proc is
	numbering process.Numbering
	// tell tells the engine of a process, by its number in our PID namespace or, if that is not 0, in the initial one.
	tell  func(pid int, global uint32, g bpf.GoProgram) error
	log   *slog.Logger
	known map[executable]*gospan.Layout // nil: it has no spans
	asked chan asked
}

// An executable is a file, as it was when it was read.
type executable struct {
	dev, ino uint64
	size     int64
	changed  unix.Timespec
}

// asked is a process that the engine does not know.
type asked struct {
	pid    int
	global uint32
}

// mostAsked is how many processes wait to be looked at. Others are asked for again, by their next session.
const mostAsked = 256

func newPrograms(tell func(pid int, global uint32, g bpf.GoProgram) error, log *slog.Logger) *programs {
	return &programs{proc: "/proc", numbering: process.NumberingOf(os.DirFS("/"), os.Getpid()), tell: tell, log: log, known: map[executable]*gospan.Layout{}, asked: make(chan asked, mostAsked)}
}

// lookAtAll looks at all processes.
func (p *programs) lookAtAll() error {
	if p.numbering == process.NumberedOther {
		return errors.New("looking for Go programs: /proc is of another PID namespace, neither ksnoop's nor the host's; to have ksnoop's: mount -t proc proc /proc")
	}
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return fmt.Errorf("looking for Go programs: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		a := asked{pid: pid}
		if p.numbering == process.NumberedInitial {
			a.global = uint32(pid)
		}
		p.look(context.Background(), a)
	}
	return nil
}

// serve looks at the processes that are asked for, until ctx ends.
func (p *programs) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.asked:
			p.look(ctx, a)
		}
	}
}

// saw asks for a process if a session's record says that it is not known. It never waits.
func (p *programs) saw(raw []byte) {
	global, inner, unknown := bpf.UnknownProgram(raw)
	if !unknown {
		return
	}
	pid, _, err := p.numbering.IDs(&bpf.Event{PID: global, Inner: inner})
	if err != nil {
		return // /proc does not have it
	}
	select {
	case p.asked <- asked{int(pid), global}:
	default:
	}
}

// look tells the engine of a process. One that has gone, or is not ours to see, stays unknown.
func (p *programs) look(ctx context.Context, a asked) {
	dir := p.proc + "/" + strconv.Itoa(a.pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return
	}
	var g bpf.GoProgram
	if g.Started, g.Environ, err = startOf(stat); err != nil || g.Environ == 0 { // a thread of the kernel
		return
	}
	l, err := p.layout(dir + "/exe")
	if err != nil {
		return
	}
	if l != nil {
		begins, err := entryOf(dir + "/auxv")
		if err != nil {
			return
		}
		g.Table, g.TLS = l.Table+begins-l.Entry, l.TLS
		g.Began, g.Ended, g.Trace, g.Span = l.Began, l.Ended, l.Trace, l.Span
	}
	if again, err := os.ReadFile(dir + "/stat"); err != nil {
		return
	} else if _, environ, err := startOf(again); err != nil || environ != g.Environ {
		return // it has become another program meanwhile
	}
	if err := p.tell(a.pid, a.global, g); err != nil && ctx.Err() == nil {
		p.log.Warn("the spans of a process are not looked for", "pid", a.pid, "reason", err)
	}
}

// layout reads an executable, once. It returns nil if that has no spans.
func (p *programs) layout(exe string) (*gospan.Layout, error) {
	f, err := os.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	key := executable{uint64(st.Dev), st.Ino, st.Size, st.Ctim}
	if l, ok := p.known[key]; ok {
		return l, nil
	}
	l, err := gospan.Read(f)
	if err != nil && !errors.Is(err, gospan.ErrNoSDK) {
		name, _ := os.Readlink(exe)
		p.log.Warn("spans of a Go program are not found", "program", name, "reason", err)
	}
	if err != nil {
		l = nil
	}
	p.known[key] = l
	return l, nil
}

// startOf reads from /proc/PID/stat when a process was started, in 1/100 s, and where its environment is.
func startOf(stat []byte) (started, environ uint64, err error) {
	end := bytes.LastIndexByte(stat, ')') // of its name, which may be anything
	fields := strings.Fields(string(stat[end+1:]))
	const first, start, environStart = 3, 22, 50 // as proc_pid_stat(5) counts
	if end < 0 || len(fields) <= environStart-first {
		return 0, 0, errors.New("stat has too few fields")
	}
	if started, err = strconv.ParseUint(fields[start-first], 10, 64); err == nil {
		environ, err = strconv.ParseUint(fields[environStart-first], 10, 64)
	}
	return started, environ, err
}

// entryOf reads from /proc/PID/auxv where a program begins.
func entryOf(file string) (uint64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	const entry = 9 // AT_ENTRY
	for ; len(raw) >= 16; raw = raw[16:] {
		if binary.NativeEndian.Uint64(raw) == entry {
			return binary.NativeEndian.Uint64(raw[8:]), nil
		}
	}
	return 0, errors.New("auxv does not say where the program begins")
}
