// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// makeTracefs makes what of tracefs counts for removing events: groups are folders
// of events, which are folders, and have files of their own.
func makeTracefs(t *testing.T, events ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, ev := range events {
		if err := os.MkdirAll(filepath.Join(dir, "events", ev), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "events", filepath.Dir(ev), "enable"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kprobe_events"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func tracefsAt(dirs ...string) tracefs { return tracefs{dirs, openAppend} }

// Events are cleared by "-:GROUP/EVENT", as the kernel's kprobetrace.rst has it:
// those of ksnoops that no longer run, and of nobody else.
func TestRemoveStale(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	own := "ksnoop_12_" + process // of another tracer of this process
	dir := makeTracefs(t, own+"/entry1_x", own+"_00ff/r_vfs_read", "ksnoop_12/entry1_12", "ksnoop_12/return2_12", "ksnoop_12_00ff/r_vfs_read", "ksnoop_13/entry1_13", "ksnoop_13_00ff/r_vfs_read", "ksnoop_/x", "ksnoop__12/x", "ksnoop_12a/x", "sched/sched_switch", "other_12/x")
	runs := func(pid int) bool { return pid == 13 }
	s, err := tracefsAt(missing, dir).removeStale(runs)
	if err != nil || s != (Stale{Removed: 3}) {
		t.Errorf("%+v, %v; want 3 removed", s, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kprobe_events"))
	if want := "-:ksnoop_12/entry1_12\n-:ksnoop_12/return2_12\n-:ksnoop_12_00ff/r_vfs_read\n"; err != nil || string(text) != want {
		t.Errorf("written was %q, %v; want %q", text, err, want)
	}
	none := makeTracefs(t, "sched/sched_switch", "ksnoop_13/entry1_13")
	if s, err := tracefsAt(none).removeStale(runs); err != nil || s != (Stale{}) {
		t.Errorf("where there are none: %+v, %v", s, err)
	}
}

// Events of a process that could not be looked at are left, and it is named; those of one that is known to trace are just left.
func TestRemoveStaleUnseen(t *testing.T) {
	dir := makeTracefs(t, "ksnoop_12/entry1_12", "ksnoop_13/entry1_13", "ksnoop_13_00ff/r_vfs_read", "ksnoop_14/entry1_14")
	tracing := func(pid int) (bool, error) {
		if pid == 13 {
			return false, fs.ErrPermission
		}
		return pid == 14, nil
	}
	if s, err := tracefsAt(dir).removeStaleBut(tracing); err != nil || s != (Stale{Removed: 1, Unseen: 13}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// Of a process that has ended, its events are taken away, and nobody else's. The kernel's EBUSY is tried again, and not for ever.
func TestRemoveLeft(t *testing.T) {
	dir := makeTracefs(t, "ksnoop_12/entry1_12", "ksnoop_12_00ff/r_vfs_read", "ksnoop_13/entry1_13", "other_12/x")
	busy := 2
	fsys := tracefs{[]string{dir}, func(name string) (io.WriteCloser, error) {
		f, err := openAppend(name)
		return busyFile{f, &busy}, err
	}}
	fsys.removeLeft(12, time.Second)
	text, err := os.ReadFile(filepath.Join(dir, "kprobe_events"))
	if want := "-:ksnoop_12/entry1_12\n-:ksnoop_12_00ff/r_vfs_read\n"; err != nil || string(text) != want {
		t.Errorf("written was %q, %v; want %q", text, err, want)
	}
	busy = 1 << 30
	fsys.removeLeft(12, 10*time.Millisecond) // ends
}

// busyFile refuses the first writes as tracefs does of events that are in use.
type busyFile struct {
	io.WriteCloser
	busy *int
}

func (f busyFile) Write(p []byte) (int, error) {
	if *f.busy--; *f.busy >= 0 {
		return 0, unix.EBUSY
	}
	return f.WriteCloser.Write(p)
}

func TestRemoveStaleFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	never := func(int) bool { return false }
	if _, err := tracefsAt(missing).removeStale(never); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mount -t tracefs tracefs /sys/kernel/tracing") {
		t.Errorf("without tracefs: %v", err)
	}
	full := makeTracefs(t, "ksnoop_12/entry1_12")
	if err := errors.Join(os.Remove(filepath.Join(full, "kprobe_events")), os.Symlink("/dev/full", filepath.Join(full, "kprobe_events"))); err != nil {
		t.Fatal(err)
	}
	if s, err := tracefsAt(full).removeStale(never); err == nil || s.Removed != 0 || !strings.Contains(err.Error(), "ksnoop_12/entry1_12") {
		t.Errorf("where nothing can be written: %+v, %v", s, err)
	}
}

// Of a process that is there and has programs, nothing is taken away (TestLiveStaleEvents). The parent has none, so it is no
// tracer. One of the same PID as this one is gone.
func TestRuns(t *testing.T) {
	const nobody = 1 << 30 // more than PIDs can be
	if runs(os.Getppid()) || runs(nobody) || runs(os.Getpid()) {
		t.Errorf("runs: parent %v, nobody %v, this one %v", runs(os.Getppid()), runs(nobody), runs(os.Getpid()))
	}
}

// A function of a module that lies before the kernel, or too far behind it for
// the kernel to count, is named.
func TestPlaceOfProbe(t *testing.T) {
	const base = 0xffffdb42dfa10000
	for want, f := range map[string]kernel.Function{
		"_stext+0":          {Name: "a", Addr: base},
		"_stext+4294967295": {Name: "b", Addr: base + 0xffffffff, Module: "above"},
		"far:c":             {Name: "c", Addr: base + 0x100000000, Module: "far"},
		"below:d.isra.0":    {Name: "d.isra.0", Addr: base - 8, Module: "below"},
	} {
		if got := string(appendPlace([]byte("p:x "), &f, base)); got != "p:x "+want {
			t.Errorf("%s: %q, want %q", f.Name, got, want)
		}
	}
}
