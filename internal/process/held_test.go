// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestHeldPerfMap: generated code of a process with a root of its own has names after its end, and what has none for lack
// of time is counted.
func TestHeldPerfMap(t *testing.T) {
	mapped := mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Start: 0x5000, End: 0x6000, Path: anonymous}
	end := mappings.Event{Kind: mappings.Ended, PID: 7, TID: 7, Time: 8}
	const named, bare = "f+0x4 (/tmp/perf-3.map)", "0x5004 (//anon)"
	for name, c := range map[string]struct {
		before        bool // its addresses are asked for while it lives
		late          bool // its mapping is told after its end
		without       bool // it writes no map
		after         time.Duration
		want          string
		unread, still int
	}{
		"asked for before":  {before: true, want: named},
		"asked for after":   {want: named, still: 1},
		"after long":        {after: holdAfter, want: bare, unread: 1},
		"before, and after": {before: true, after: holdAfter, want: named},
		"told too late":     {late: true, want: bare, unread: 1},
		"without a map":     {without: true, want: bare, still: 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tmp := filepath.Join(root, "proc/7/root/tmp")
			if err := errors.Join(os.MkdirAll(tmp, 0o755), os.Mkdir(filepath.Join(root, "tmp"), 0o755),
				os.WriteFile(filepath.Join(root, "proc/7/status"), []byte("Name:\tpy\nNSpid:\t7\t3\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			source := &told{}
			s := Following(os.DirFS(root), NumberedOurs, source, false)
			if !c.late {
				*source = append(*source, []mappings.Event{mapped})
				s.Update()
			}
			ask := func() string {
				return string(s.Of(&bpf.Event{PID: 7, TID: 7, Time: 5}, "py").AppendFrame(nil, 0x5004, true))
			}
			if c.before {
				if got := ask(); got != bare {
					t.Errorf("before there is a map: %s", got)
				}
			}
			if !c.without {
				if err := os.WriteFile(filepath.Join(tmp, "perf-3.map"), []byte("5000 10 f\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(filepath.Join(root, "proc/7"), filepath.Join(root, "gone")); err != nil {
				t.Fatal(err)
			}
			if c.late {
				*source = append(*source, []mappings.Event{mapped})
			}
			*source = append(*source, []mappings.Event{end})
			s.Update()
			s.Update()
			s.leave(time.Now().Add(c.after))
			if got := ask(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			ask()
			if s.Unread() != c.unread || s.heldOpen != c.still {
				t.Errorf("%d unread, want %d; %d held, want %d", s.Unread(), c.unread, s.heldOpen, c.still)
			}
			s.leave(time.Now().Add(holdAfter))
			if s.heldOpen != 0 || len(s.leaving) != 0 {
				t.Errorf("%d directories stay open", s.heldOpen)
			}
		})
	}
}

// TestMainThreadEnds: a process goes on when its main thread has ended, and so does what it generates, but /proc/PID has no root
// and no maps any more. Its end is that of its last thread.
func TestMainThreadEnds(t *testing.T) {
	for name, before := range map[string]bool{"a thread that was there before": true, "a thread that is made": false} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tmp := filepath.Join(root, "proc/7/root/tmp")
			thread := func(dir string) error {
				dir = filepath.Join(root, dir)
				return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "stat"), []byte(stat("py", 26, 28)), 0o600))
			}
			task := "proc/7/task/7"
			if before {
				task = "proc/7/task/9"
			}
			if err := errors.Join(os.MkdirAll(tmp, 0o755), thread(task), os.Mkdir(filepath.Join(root, "tmp"), 0o755),
				os.WriteFile(filepath.Join(root, "proc/7/maps"), []byte("5000-6000 r-xp 0 00:00 0 \n"), 0o600),
				os.WriteFile(filepath.Join(root, "proc/7/status"), []byte("Name:\tpy\nNSpid:\t7\t3\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			source := &told{}
			s := Following(os.DirFS(root), NumberedOurs, source, false)
			tell := func(events ...mappings.Event) {
				*source = append(*source, events)
				s.Update()
			}
			writes := func(text string) {
				if err := os.WriteFile(filepath.Join(tmp, "perf-3.map"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			check := func(addr uint64, want string) {
				t.Helper()
				if got := string(s.Of(&bpf.Event{PID: 7, TID: 9, Time: 50}, "py").AppendFrame(nil, addr, true)); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			if !before {
				if err := thread("proc/7/task/9"); err != nil {
					t.Fatal(err)
				}
				tell(mappings.Event{Kind: mappings.Forked, PID: 7, TID: 9, Parent: 7, Time: 2, ParentShare: true})
			}
			writes("5000 10 f\n")
			check(0x5004, "f+0x4 (/tmp/perf-3.map)")
			tell(mappings.Event{Kind: mappings.Ended, PID: 7, TID: 7, Time: 8})
			tmp = filepath.Join(root, "away/tmp")
			if err := os.Rename(filepath.Join(root, "proc/7/root"), filepath.Join(root, "away")); err != nil {
				t.Fatal(err)
			}
			writes("5000 10 f\n5010 10 g\n")
			check(0x5014, "g+0x4 (/tmp/perf-3.map)")
			s.leave(time.Now().Add(holdAfter))
			if s.heldOpen != 1 {
				t.Errorf("%d directories are open, want 1", s.heldOpen)
			}
			tell(mappings.Event{Kind: mappings.Ended, PID: 7, TID: 9, Time: 10})
			s.leave(time.Now().Add(holdAfter))
			if s.heldOpen != 0 {
				t.Errorf("%d directories stay open", s.heldOpen)
			}
		})
	}
}

// TestHeldBound: so many directories are kept open and no more, and none of a process that sees our /tmp.
func TestHeldBound(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc/7/root/tmp"), 0o755), os.MkdirAll(filepath.Join(root, "proc/8"), 0o755), os.Symlink("../..", filepath.Join(root, "proc/8/root")),
		os.Mkdir(filepath.Join(root, "tmp"), 0o755), os.WriteFile(filepath.Join(root, "proc/7/status"), nil, 0o600), os.WriteFile(filepath.Join(root, "proc/8/status"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := newSymbols(os.DirFS(root))
	var lives []*life
	for range mostHeld + 1 {
		of := &life{}
		s.generates(7, of)
		lives = append(lives, of)
	}
	if s.heldOpen != mostHeld || lives[mostHeld-1].held == nil || lives[mostHeld].held != nil {
		t.Errorf("%d are open", s.heldOpen)
	}
	s.release(lives[0])
	late := lives[mostHeld]
	if s.generates(7, late); late.held != nil {
		t.Error("it was tried again at once")
	}
	late.tried = late.tried.Add(-holdAgain)
	if s.generates(7, late); late.held == nil {
		t.Error("it is not tried again")
	}
	shared := &life{}
	s.generates(8, shared)
	if shared.held == nil || shared.held.tmp != nil {
		t.Errorf("of a process with our /tmp: %+v", shared.held)
	}
	for _, of := range lives {
		s.release(of)
	}
	if s.heldOpen != 0 {
		t.Errorf("%d stay open", s.heldOpen)
	}
}
