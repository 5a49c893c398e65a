// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/process"
)

// Processes are whose calls are traced, by their numbers in our PID namespace.
type Processes struct {
	PIDs, TIDs []uint
	Follow     bool // all that PIDs start as well
}

// Watch returns a channel that is closed when all of PIDs, or all of TIDs, have ended; it is nil if there are
// none. The function gives up watching.
func (p Processes) Watch() (ended <-chan struct{}, stop func(), err error) {
	if p.Follow && process.NumberingOf(os.DirFS("/"), os.Getpid()) != process.NumberedOurs {
		return nil, nil, errors.New("following children takes /proc, which is of another PID namespace than ksnoop's; to have ksnoop's: mount -t proc proc /proc")
	}
	var ends []<-chan struct{}
	var stops []func() error
	stop = func() {
		for _, s := range stops {
			_ = s() // nothing depends on it any more
		}
	}
	for _, pid := range p.PIDs {
		if pid == 0 {
			return nil, stop, nil // idle tasks never end
		}
		end, s, err := launch.Watch(int(pid))
		if err != nil {
			stop()
			return nil, nil, err
		}
		ends, stops = append(ends, end), append(stops, s)
	}
	proc := fs.FS(nil)
	if process.NumberingOf(os.DirFS("/"), os.Getpid()) == process.NumberedOurs {
		proc = os.DirFS("/proc")
	}
	for _, tid := range p.TIDs {
		if !threadThere(proc, tid) {
			stop()
			return nil, nil, fmt.Errorf("there is no thread %d", tid)
		}
	}
	if len(ends)+len(p.TIDs) == 0 {
		return nil, stop, nil
	}
	all := make(chan struct{})
	end := sync.OnceFunc(func() { close(all) })
	if len(ends) > 0 {
		go func() {
			for _, one := range ends {
				<-one
			}
			end()
		}()
	}
	if len(p.TIDs) > 0 {
		given := make(chan struct{})
		stops = append(stops, func() error { close(given); return nil })
		go watchThreads(proc, p.TIDs, given, end)
	}
	return all, stop, nil
}

// threadThere reports whether there is a thread of a number that has not ended. proc has the threads by these numbers, or is nil.
func threadThere(proc fs.FS, tid uint) bool {
	if tid == 0 {
		return true // idle tasks never end
	}
	if _, err := unix.Getpgid(int(tid)); err != nil {
		return false
	}
	if proc == nil {
		return true
	}
	stat, err := fs.ReadFile(proc, strconv.FormatUint(uint64(tid), 10)+"/stat")
	fields := afterName(stat)
	return err != nil || len(fields) == 0 || !dead(fields[0])
}

// afterName returns the fields of /proc/PID/stat behind the name, which may be anything. The first is the state.
func afterName(stat []byte) [][]byte { return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) }

// dead reports whether a state is that of a thread that has ended, also if nobody has asked for its status yet.
func dead(state []byte) bool { return state[0] == 'Z' || state[0] == 'X' }

// watchThreads calls end when all of some threads have ended, unless it was given up. Before Linux 6.9 nothing tells of the end of a
// thread that somebody has not made.
func watchThreads(proc fs.FS, tids []uint, given <-chan struct{}, end func()) {
	const often = 200 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for left := slices.Clone(tids); len(left) > 0; {
		select {
		case <-given:
			return
		case <-tick.C:
		}
		left = slices.DeleteFunc(left, func(tid uint) bool { return !threadThere(proc, tid) }) // its number may be another one's later
	}
	end()
}

// Adopt hands the processes that are followed, and their descendants, to add, which makes
// whatever they start one of them. It looks for descendants until there are no new ones:
// while it looks, more are started.
func (p Processes) Adopt(add func(pid int) error) error {
	if !p.Follow {
		return nil
	}
	return p.adopt(os.DirFS("/proc"), add)
}

func (p Processes) adopt(proc fs.FS, add func(pid int) error) error {
	var roots []int
	for _, pid := range p.PIDs {
		roots = append(roots, int(pid))
	}
	for known, pids := 0, roots; len(pids) > known; {
		known = len(pids)
		for _, pid := range pids {
			if err := add(pid); err != nil {
				return err
			}
		}
		var err error
		if pids, err = launch.Descendants(proc, roots); err != nil {
			return fmt.Errorf("following children: %w", err)
		}
	}
	return nil
}

// GoOn returns how many processes are followed that have not ended. It is to be called before End.
func (r *Run) GoOn() (int, error) { return goOn(os.DirFS("/proc"), r.tracer.Follows) }

func goOn(proc fs.FS, follows func(pid int) (bool, error)) (n int, err error) {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := fs.ReadFile(proc, e.Name()+"/stat")
		if err != nil || ended(stat) {
			continue
		}
		follows, err := follows(pid)
		if err != nil {
			return 0, err
		}
		if follows {
			n++
		}
	}
	return n, nil
}

// ended reports whether stat is that of a process without threads, which only waits for its parent to ask how it ended. The main
// thread may end before others.
func ended(stat []byte) bool {
	const state, threads = 0, 20 - 3 // proc(5) counts the state as the third field
	fields := afterName(stat)
	return len(fields) <= threads || dead(fields[state]) && len(fields[threads]) == 1 && fields[threads][0] <= '1'
}
