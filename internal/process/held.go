// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io/fs"
	"os"
	"time"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// Limits on what is kept of processes whose map of generated code is elsewhere than in our /tmp. An
// open directory keeps its file system from being unmounted, so it is closed soon after the process's end.
const (
	mostHeld  = 256
	holdAfter = 2 * time.Second
)

// hold keeps where a process that lives has its map. It returns nil if that is not possible.
func (s *Symbols) hold(pid uint32) *held {
	h, alive := s.perfMapNow(pid)
	if !alive {
		return nil
	}
	dir := procOf(pid) + "/root/tmp"
	own, err := regular.Stat(s.root, dir)
	if err != nil {
		return nil
	}
	if ours, err := fs.Stat(s.root, "tmp"); err == nil && os.SameFile(own, ours) {
		return h
	}
	if s.heldOpen >= mostHeld {
		return nil
	}
	if h.tmp, err = regular.OpenDirIn(s.root, dir); err != nil {
		return nil
	}
	s.heldOpen++
	return h
}

// release closes what is held of a process.
func (s *Symbols) release(of *life) {
	if of.held != nil && of.held.tmp != nil {
		of.held.tmp.Close()
		s.heldOpen--
	}
	of.held = nil
}

// holdAgain is how long after a try to keep where a map is there is another one: compilers at run time map code all the time.
const holdAgain = time.Second

// generates keeps where the map of a process is that has mapped code of no file.
func (s *Symbols) generates(pid uint32, of *life) {
	if now := time.Now(); of.held == nil && !of.over && now.Sub(of.tried) >= holdAgain {
		of.tried = now
		of.held = s.hold(pid)
	}
	of.generates = true
}

// over takes note of the end of a life, whose map is read now if addresses of it were asked for before. Otherwise
// they may be asked for soon, since events are read later than they happen.
func (s *Symbols) over(pid uint32, of *life) {
	if of.held == nil || of.held.tmp == nil {
		return
	}
	key := perfKey{pid, of.from}
	if m := s.generated[key]; m != nil {
		s.readGenerated(key, m, of)
		s.release(of)
		return
	}
	s.leaving = append(s.leaving, leaving{of, time.Now()})
}

// leave closes what is held of lives that have been over for long.
func (s *Symbols) leave(now time.Time) {
	for len(s.leaving) > 0 && now.Sub(s.leaving[0].since) >= holdAfter {
		s.release(s.leaving[0].life)
		s.leaving = s.leaving[1:]
	}
}

// Update learns what processes have done. It is to be called from time to time, so that what they leave behind can
// be read while they live.
func (s *Symbols) Update() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives != nil {
		s.lives.update(0)
		s.leave(time.Now())
	}
}

// Unread returns of how many processes that have ended the names of generated code could not be read.
func (s *Symbols) Unread() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}
