// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stale counts the events that ksnoops which were killed have left behind: each
// costs the kernel memory.
type Stale struct {
	Removed int
	Kept    int // because somebody else uses them
	// Unseen is one of the processes whose events are left since they may be those of one that runs: it could not be looked
	// at. 0 if there is none.
	Unseen int
}

// RemoveStale takes them away.
func RemoveStale() (Stale, error) { return mountedTracefs().removeStaleBut(tracing) }

// removeStaleBut takes away the events of processes that are known not to trace.
func (fsys tracefs) removeStaleBut(tracing func(pid int) (bool, error)) (Stale, error) {
	unseen := 0
	s, err := fsys.removeStale(func(pid int) bool {
		is, err := tracing(pid)
		if err != nil {
			unseen = pid
		}
		return is || err != nil
	})
	s.Unseen = unseen
	return s, err
}

// leftTime is how long RemoveLeft waits for the kernel to let go of an event.
const leftTime = 10 * time.Second

// RemoveLeft takes away the events of a process of ksnoop that has closed its files.
func RemoveLeft(pid int) {
	if inInitialNamespace() {
		mountedTracefs().removeLeft(pid, leftTime)
	}
}

// removeLeft tries again for a while where an event is busy, as the kernel closes files a little later than it says.
func (fsys tracefs) removeLeft(pid int, d time.Duration) {
	other := func(p int) bool { return p != pid }
	for end := time.Now().Add(d); ; time.Sleep(d / 100) {
		if s, err := fsys.removeStale(other); err != nil || s.Kept == 0 || time.Now().After(end) {
			return
		}
	}
}

// runs reports whether a process of that number may be another one that has events.
func runs(pid int) bool {
	is, err := tracing(pid)
	return is || err != nil
}

// errOtherNamespace is why nothing is known of processes by the kernel's numbers.
var errOtherNamespace = errors.New("ksnoop is in a PID namespace of its own")

// tracing reports whether a process of that number is another one that has events, or why that is not known.
func tracing(pid int) (bool, error) {
	switch {
	case !inInitialNamespace():
		return false, errOtherNamespace
	case pid == os.Getpid(), running{}.ended(pid):
		return false, nil
	}
	return holdsBPF(os.DirFS("/"), pid)
}

// holdsBPF reports whether a process has programs or maps open, as a tracer has before its events: else it has the number
// of one that was killed. The files of a process with more capabilities may be listed by whoever has its user ID, but what they
// are is not told.
func holdsBPF(root fs.FS, pid int) (bool, error) {
	dir := "proc/" + strconv.Itoa(pid) + "/fd"
	files, err := fs.ReadDir(root, dir)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		to, err := fs.ReadLink(root, path.Join(dir, f.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was closed meanwhile
		case err != nil:
			return false, err
		case strings.HasPrefix(to, "anon_inode:bpf"):
			return true, nil
		}
	}
	return false, nil
}

// removeStale takes away the events of processes that no longer run. It must not try any of one
// that runs: of an event that is in use and has many probes, the kernel removes all but the last
// one before it says that the event is busy.
func (fsys tracefs) removeStale(runs func(pid int) bool) (s Stale, err error) {
	dir, groups, err := fsys.groups()
	if err != nil {
		return s, err
	}
	var file io.WriteCloser // opened when there is something to remove
	for _, group := range groups {
		rest, ours := strings.CutPrefix(group.Name(), eventGroup)
		number, suffix, _ := strings.Cut(rest, "_")
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || strings.HasPrefix(suffix, process) || runs(pid) {
			continue
		}
		events, err := os.ReadDir(filepath.Join(dir, "events", group.Name()))
		if err != nil {
			continue // it has just gone
		}
		if file == nil {
			if file, err = fsys.open(filepath.Join(dir, "kprobe_events")); err != nil {
				return s, err
			}
			defer file.Close()
		}
		for _, ev := range events {
			if !ev.IsDir() { // a switch of the group
				continue
			}
			_, err := fmt.Fprintf(file, "-:%s/%s\n", group.Name(), ev.Name())
			switch {
			case err == nil:
				s.Removed++
			case errors.Is(err, unix.EBUSY):
				s.Kept++
			case !errors.Is(err, unix.ENOENT): // a ksnoop that starts removes them, too
				return s, fmt.Errorf("removing event %s/%s: %w", group.Name(), ev.Name(), err)
			}
		}
	}
	return s, nil
}
