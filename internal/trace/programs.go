// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/gospan"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/threadctx"
	"github.com/ksnoop/ksnoop/internal/timeout"
)

// programs tells the engine where processes have their spans: at first of all processes, then of each that the engine
// asks for.
type programs struct {
	proc      string // where /proc is
	root      fs.FS  // whose folder proc is that
	numbering process.Numbering
	wanted    bpf.ParentPlace
	// tell tells the engine of a process, by its number in our PID namespace or, if that is not 0, in the initial one.
	tell    func(pid int, global uint32, place bpf.SpanPlace) error
	log     *slog.Logger
	layouts map[process.Version]*gospan.Layout  // of Go programs; nil: it has no spans
	threads map[process.Version]*threadctx.File // of programs and libraries
	told    map[int]told
	asked   chan asked
	reads   *timeout.Calls
	warned  int
}

// asked is a process that the engine does not know.
type asked struct {
	pid    int
	global uint32
}

// told is when the engine was told of a process.
type told struct {
	started, environ uint64
	at               time.Duration
}

// How long until a process is looked at again whose threads have no context record: it may load a library. It is as
// long as the process is old, within these limits. What was asked for in the meantime is answered already.
const (
	soonest = 100 * time.Millisecond
	latest  = time.Minute
)

// mostKnown is how many files or processes are remembered. When there are more, all are looked at again.
const mostKnown = 1 << 15

// mostAsked is how many processes wait to be looked at. Others are asked for again, by their next session.
const mostAsked = 256

// How long processes are looked at before tracing begins, and how long one file is. Files may be made to take long.
const (
	mostLooking = 10 * time.Second
	mostReading = 30 * time.Second
)

var errSlow = fmt.Errorf("to read it takes more than %v", mostReading)

func newPrograms(wanted bpf.ParentPlace, tell func(pid int, global uint32, place bpf.SpanPlace) error, log *slog.Logger) *programs {
	root := os.DirFS("/")
	return &programs{proc: "/proc", root: root, numbering: process.NumberingOf(root, os.Getpid()), wanted: wanted, tell: tell, log: log,
		layouts: map[process.Version]*gospan.Layout{}, threads: map[process.Version]*threadctx.File{}, reads: memoryReads(), told: map[int]told{},
		asked: make(chan asked, mostAsked)}
}

// lookAtAll looks at all processes, until ctx ends or for so long. The engine asks for those that are left.
func (p *programs) lookAtAll(ctx context.Context, most time.Duration) error {
	if p.numbering == process.NumberedOther {
		return errors.New("looking for programs with spans: /proc is of another PID namespace, neither ksnoop's nor the host's; to have ksnoop's: mount -t proc proc /proc")
	}
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return fmt.Errorf("looking for programs with spans: %w", err)
	}
	looking, stop := context.WithTimeout(ctx, most)
	defer stop()
	left := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		a := asked{pid: pid}
		if p.numbering == process.NumberedInitial {
			a.global = uint32(pid)
		}
		if looking.Err() == nil {
			p.look(looking, a)
		}
		if looking.Err() != nil {
			left++
		}
	}
	if left > 0 && ctx.Err() == nil {
		p.log.Warn(fmt.Sprintf("looking for programs with spans took more than %v: %s not looked at, whose first sessions may lack the spans they are in", most,
			plural.Of(left, "process{es} {was|were}")))
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

// saw asks for a process if a session's record says so. It never waits.
func (p *programs) saw(raw []byte) {
	global, inner, look := bpf.LookAt(raw)
	if !look {
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
	var place bpf.SpanPlace
	if place.Started, place.Environ, err = startOf(stat); err != nil || place.Environ == 0 { // a thread of the kernel
		return
	}
	now := clock(unix.CLOCK_MONOTONIC)
	if last, ok := p.told[a.pid]; ok && last.started == place.Started && last.environ == place.Environ && now-last.at < soonest/2 {
		return
	}
	if p.wanted&bpf.ParentGo != 0 {
		if err := p.goroutines(ctx, dir, &place); err != nil {
			return
		}
	}
	if p.wanted&bpf.ParentThread != 0 {
		if err := p.records(ctx, a.pid, dir, &place); err != nil {
			return
		}
		if place.Access == bpf.ThreadNone {
			age := clock(unix.CLOCK_BOOTTIME) - time.Duration(place.Started)*time.Second/100
			place.Again = uint64(now + min(max(age, soonest), latest))
		}
	}
	if again, err := os.ReadFile(dir + "/stat"); err != nil {
		return
	} else if _, environ, err := startOf(again); err != nil || environ != place.Environ {
		return // it has become another program meanwhile
	}
	if len(p.told) >= mostKnown {
		clear(p.told)
	}
	p.told[a.pid] = told{place.Started, place.Environ, now}
	if err := p.tell(a.pid, a.global, place); err != nil && ctx.Err() == nil {
		p.warn("the spans of a process are not looked for", "pid", a.pid, "reason", err)
	}
}

// mostWarned bounds what is said: users choose how many programs that cannot be read they have.
const mostWarned = 20

// warn says what is wrong with a program or a process, unless much has been said.
func (p *programs) warn(text string, args ...any) {
	if p.warned++; p.warned > mostWarned {
		p.log.Debug(text, args...)
		return
	}
	p.log.Warn(text, args...)
	if p.warned == mostWarned {
		p.log.Warn("more programs and processes with such faults are not named; --debug names them")
	}
}

// goroutines finds where a process has the spans of the SDK of Go.
func (p *programs) goroutines(ctx context.Context, dir string, place *bpf.SpanPlace) error {
	l, err := p.layout(ctx, dir+"/exe")
	if err != nil || l == nil {
		return err
	}
	begins, err := entryOf(dir + "/auxv")
	if err != nil {
		return err
	}
	place.Table, place.TLS = l.Table+begins-l.Entry, l.TLS
	place.Began, place.Ended, place.Trace, place.Span = l.Began, l.Ended, l.Trace, l.Span
	return nil
}

// clock reads a clock.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0 // every kernel has these
	}
	return time.Duration(t.Nano())
}

// layout reads an executable, once. It returns nil if that has no spans.
func (p *programs) layout(ctx context.Context, exe string) (*gospan.Layout, error) {
	f, err := regular.OpenIn(p.root, strings.TrimPrefix(exe, "/"), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	key, err := process.VersionOf(f)
	if err != nil {
		return nil, err
	}
	if l, ok := p.layouts[key]; ok {
		return l, nil
	}
	reading, stop := context.WithTimeoutCause(ctx, mostReading, errSlow)
	defer stop()
	l, err := gospan.Read(reading, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !errors.Is(err, gospan.ErrNoSDK) {
		name, _ := os.Readlink(exe)
		p.warn("spans of a Go program are not found", "program", name, "reason", err)
	}
	if err != nil {
		l = nil
	}
	if len(p.layouts) >= mostKnown {
		clear(p.layouts)
	}
	p.layouts[key] = l
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
