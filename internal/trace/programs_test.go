// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"debug/elf"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/process"
)

// TestProcess: of a process it is read when it was started and where its environment and its program begin. Its own
// memory is the judge.
func TestProcess(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	started, environ, err := startOf(stat)
	if err != nil || started == 0 {
		t.Fatal(started, err)
	}
	want, err := os.ReadFile("/proc/self/environ")
	if err != nil || len(want) == 0 {
		t.Skip("there is no environment: ", err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	got := make([]byte, len(want))
	if _, err := memory.ReadAt(got, int64(environ)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("at %#x is %q: %v", environ, got, err)
	}
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if entry, err := entryOf("/proc/self/auxv"); err != nil || f.Type == elf.ET_EXEC && entry != f.Entry {
		t.Errorf("it begins at %#x: %v; its file says %#x", entry, err, f.Entry)
	}
	for _, bad := range []string{"", "1 (a) b) R 1", "1 a R"} {
		if _, _, err := startOf([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestAsked: a process is told once it is asked for, and one without spans has no table.
func TestAsked(t *testing.T) {
	told := make(chan bpf.SpanPlace, 1)
	p := newPrograms(bpf.ParentGo|bpf.ParentThread, func(pid int, global uint32, g bpf.SpanPlace) error {
		if pid != os.Getpid() || global != uint32(pid) {
			t.Errorf("process %d (%d) is told, not %d", pid, global, os.Getpid())
		}
		told <- g
		return nil
	}, slog.New(slog.DiscardHandler))
	record := func(pid int, look bool) []byte {
		return bpf.AppendSession(nil, &bpf.SessionHeader{Kind: bpf.SessionEnd, PID: uint32(pid), HasParent: true, Parent: bpf.Parent{Look: look}})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go p.serve(ctx)
	p.saw(record(1<<30, true)) // there is no such process
	p.saw(record(os.Getpid(), false))
	p.saw(record(os.Getpid(), true))
	if g := <-told; g.Started == 0 || g.Environ == 0 || g.Table != 0 || g.Access != bpf.ThreadNone || g.Again == 0 {
		t.Errorf("%+v", g)
	}
	stop()
	for range 2 * mostAsked { // nobody reads, and nobody waits
		p.saw(record(os.Getpid(), true))
	}
}

// TestLookAtAll: what is left when the time is over is counted, and when tracing is to end nothing is said or remembered.
func TestLookAtAll(t *testing.T) {
	ended, stop := context.WithCancel(t.Context())
	stop()
	for _, test := range []struct {
		ctx  context.Context
		most time.Duration
		want string
	}{
		{t.Context(), time.Minute, ""},
		{t.Context(), -1, "3 processes were not looked at, whose"},
		{ended, time.Minute, ""},
	} {
		var said bytes.Buffer
		p := newPrograms(bpf.ParentGo|bpf.ParentThread, nil, slog.New(slog.NewTextHandler(&said, nil)))
		p.proc, p.numbering = t.TempDir(), process.NumberedInitial
		for _, name := range []string{"1", "20", "300", "self"} {
			if err := os.Mkdir(filepath.Join(p.proc, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.lookAtAll(test.ctx, test.most); err != nil || !strings.Contains(said.String(), test.want) || (test.want == "") != (said.Len() == 0) {
			t.Errorf("%v: %q, %v", test.most, &said, err)
		}
	}
	p := newPrograms(bpf.ParentGo|bpf.ParentThread, nil, slog.New(slog.DiscardHandler))
	p.look(ended, asked{pid: os.Getpid()}) // does not tell
	if err := p.records(ended, os.Getpid(), "/proc/self", &bpf.SpanPlace{}); err == nil || len(p.layouts)+len(p.threads) > 0 {
		t.Errorf("%v, with %v and %v", err, p.layouts, p.threads)
	}
}

// TestWarn: what users can have said is bounded.
func TestWarn(t *testing.T) {
	var said bytes.Buffer
	p := newPrograms(bpf.ParentGo, nil, slog.New(slog.NewTextHandler(&said, nil)))
	for range 10 * mostWarned {
		p.warn("a fault")
	}
	if n := strings.Count(said.String(), "a fault"); n != mostWarned || strings.Count(said.String(), "--debug") != 1 {
		t.Errorf("said %d times:\n%s", n, &said)
	}
}
