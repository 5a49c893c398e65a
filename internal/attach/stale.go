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
	"slices"
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
}

// RemoveStale takes them away.
func RemoveStale() (Stale, error) { return mountedTracefs().removeStale(runs) }

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
// Seen from another PID namespace than the initial one, there may always be one.
func runs(pid int) bool {
	return !inInitialNamespace() || pid != os.Getpid() && !running{}.ended(pid) && holdsBPF(os.DirFS("/"), pid)
}

// holdsBPF reports whether a process may have programs or maps open, as a tracer has before its events: else it has the number
// of one that was killed. The files of a process with more capabilities may be listed by whoever has its user ID, but what they
// are is not told.
func holdsBPF(root fs.FS, pid int) bool {
	dir := "proc/" + strconv.Itoa(pid) + "/fd"
	files, err := fs.ReadDir(root, dir)
	return err != nil || slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		to, err := fs.ReadLink(root, path.Join(dir, f.Name()))
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist) // else it was closed meanwhile
		}
		return strings.HasPrefix(to, "anon_inode:bpf")
	})
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
