// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/ksnoop/ksnoop/internal/mappings"
)

// Limits on what is remembered of processes. A process maps what it likes.
const (
	mostLives   = 4 * mostSpaces
	mostReading = 10 * time.Second // for reading what is mapped at first
	mostMapped  = 1 << 14          // pieces of code in one life
	mostCode    = 128 << 20        // bytes that the pieces of all lives take
	ownCode     = 64 << 10         // and of one, even if others take too many
)

// A Source tells which code processes map. *mappings.Watcher implements it.
type Source interface {
	Take(dst []mappings.Event) []mappings.Event
}

// lives are the processes of the machine from some moment on, by their numbers in ksnoop's
// PID namespace: a number has a life for each program that it executes.
type lives struct {
	root   fs.FS
	source Source
	events []mappings.Event
	of     map[uint32][]*life // in order of time
	count  int
	size   int     // bytes of all maps
	ended  []ended // in order of time
	lost   uint64
	keeper keeper // nil: files of processes are not to be found
}

// A keeper keeps what is needed of processes after their end. *Symbols implements it.
type keeper interface {
	generates(pid uint32, of *life)
	over(pid uint32, of *life)
}

// A leaving is a life that is over, and since when.
type leaving struct {
	life  *life
	since time.Time
}

type ended struct {
	pid  uint32
	life *life
}

// A life is what a process maps from an exec or a fork to the next exec.
type life struct {
	from uint64
	maps []timed // in order of time
	size int     // bytes of them; a child counts what it shares with its parent, too

	looked looked

	// A process goes on when its main thread has ended, as long as there is another one.
	others    map[uint32]struct{} // threads but the main one
	unlisted  bool                // it was there before, and /proc has not told its threads yet
	mainEnded bool

	generates bool  // code of no file is mapped
	held      *held // where its map is; nil if that is not known
	over      bool
}

// A timed is a mapping and since when it is there. What was unmapped is not known; a later
// mapping hides it.
type timed struct {
	mapping
	from uint64
}

// newLives remembers the processes that there are, and follows them. A process that is
// missing in /proc's numbers is known from its next exec on.
func newLives(root fs.FS, source Source) *lives {
	l := &lives{root: root, source: source, of: map[uint32][]*life{}}
	entries, _ := fs.ReadDir(root, "proc") // whoever has no /proc gets no names
	began := time.Now()
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || l.count >= mostSpaces {
			continue
		}
		if time.Since(began) > mostReading {
			l.lost++
			continue
		}
		maps, err := readSomeMaps(root, uint32(pid))
		cut := errors.Is(err, errCutMaps)
		if cut || mapsReads.GaveUp(err) {
			l.lost++
		}
		if err == nil || cut {
			n := &life{unlisted: true}
			l.begin(uint32(pid), n)
			for _, m := range maps {
				l.add(n, timed{mapping: m})
			}
		}
	}
	return l
}

// keepAll keeps where those processes that generate code already have their maps.
func (l *lives) keepAll() {
	for pid, own := range l.of {
		for _, n := range own {
			l.keep(pid, n)
		}
	}
}

func (l *lives) keep(pid uint32, n *life) {
	if l.keeper != nil && slices.ContainsFunc(n.maps, func(m timed) bool { return m.file.path == anonymous }) {
		l.keeper.generates(pid, n)
	}
}

// end takes note of the end of a life, once.
func (l *lives) end(pid uint32, n *life) {
	if n.over {
		return
	}
	n.over, n.others = true, nil
	l.ended = append(l.ended, ended{pid, n})
	if l.keeper != nil {
		l.keeper.over(pid, n)
	}
}

// update learns what has happened up to now.
func (l *lives) update() {
	l.events = l.source.Take(l.events[:0])
	for i := range l.events {
		l.apply(&l.events[i])
		l.forget()
	}
}

func (l *lives) apply(e *mappings.Event) {
	if e.Kind == mappings.Lost {
		l.lost += e.Count
		return
	}
	if e.PID == 0 || e.PID == ^uint32(0) { // of another PID namespace
		return
	}
	switch e.Kind {
	case mappings.Execed:
		l.begin(e.PID, &life{from: e.Time})
	case mappings.Forked:
		if e.ParentShare {
			if in := l.at(e.PID, e.Time); in != nil {
				in.starts(e.TID)
			}
			return
		}
		child := &life{from: e.Time}
		if parent := l.at(e.Parent, e.Time); parent != nil {
			// Both have the same array, and neither may write to it: events may be late.
			parent.maps = slices.Clip(parent.maps)
			child.maps = slices.Clip(parent.maps[:parent.behind(e.Time)])
			child.size = parent.size
			child.looked = parent.looked.fork()
		}
		l.begin(e.PID, child)
		l.keep(e.PID, child)
	case mappings.Mapped:
		in := l.at(e.PID, e.Time)
		if in == nil {
			in = &life{from: e.Time}
			l.begin(e.PID, in)
		}
		if m := mappedBy(e); !in.has(&m) {
			l.add(in, m)
		}
		if e.Path == anonymous && l.keeper != nil {
			l.keeper.generates(e.PID, in)
		}
	case mappings.Ended:
		if in := l.at(e.PID, e.Time); in != nil && l.ends(in, e) {
			l.end(e.PID, in)
		}
	}
}

// starts takes note of a thread.
func (n *life) starts(tid uint32) {
	if n.others == nil {
		n.others = map[uint32]struct{}{}
	}
	n.others[tid] = struct{}{}
}

// ends takes note of the end of a thread, and reports whether it was the last one of a life.
func (l *lives) ends(n *life, e *mappings.Event) bool {
	delete(n.others, e.TID)
	n.mainEnded = n.mainEnded || e.TID == e.PID
	if n.mainEnded && n.unlisted {
		l.list(e.PID, n)
	}
	return n.mainEnded && !n.unlisted && len(n.others) == 0
}

// list asks for the threads of a process that was there before. There may be many in each process, and few processes
// go on without their main thread, so this is not done at first. It blocks reading, some 50 microseconds for a thread,
// so it is done only for processes that generate code. Others are over with their main thread: if they do go on, they
// may be forgotten early, and the map of code that they begin to generate by then is read only once.
func (l *lives) list(pid uint32, n *life) {
	own := l.of[pid]
	if !n.generates || own[len(own)-1] != n { // /proc knows the threads of the last life
		n.unlisted = false
		return
	}
	if others, err := otherThreads(l.root, pid); err == nil {
		n.others, n.unlisted = others, false
	}
}

// begin adds a life, which ends the one before it. If it is told late, it is over itself.
func (l *lives) begin(pid uint32, n *life) {
	own := l.of[pid]
	i := len(own)
	for i > 0 && own[i-1].from > n.from {
		i--
	}
	if i > 0 {
		l.end(pid, own[i-1])
	}
	if i < len(own) {
		l.end(pid, n)
	}
	l.of[pid] = slices.Insert(own, i, n)
	l.count++
	l.size += n.size
}

// forget forgets the lives that ended first, where there are too many.
func (l *lives) forget() {
	for (l.count > mostLives || l.size > mostCode) && len(l.ended) > 0 {
		old := l.ended[0]
		l.ended = l.ended[1:]
		kept := slices.DeleteFunc(l.of[old.pid], func(of *life) bool { return of == old.life })
		if l.of[old.pid] = kept; len(kept) == 0 {
			delete(l.of, old.pid)
		}
		l.count--
		l.size -= old.life.size
	}
}

// mappedBy returns what an event has mapped.
func mappedBy(e *mappings.Event) timed {
	m := timed{from: e.Time, mapping: mapping{start: e.Start, end: e.End, offset: e.Offset,
		file: fileID{device: e.Device, path: e.Path, buildID: e.BuildID}}}
	if e.Inode != 0 {
		m.file.inode = strconv.FormatUint(e.Inode, 10)
	}
	return m
}

// add adds a mapping, or counts it if there is no room for it. Most come in order, and pieces of one file after each other.
func (l *lives) add(n *life, m timed) {
	if len(n.maps) >= mostMapped || l.size > mostCode && n.size > ownCode {
		l.lost++
		return
	}
	at := n.behind(m.from)
	size := int(unsafe.Sizeof(m)) + len(m.file.device) + len(m.file.inode) + len(m.file.buildID)
	if at > 0 && n.maps[at-1].file.path == m.file.path {
		m.file.path = n.maps[at-1].file.path // the same memory
	} else {
		size += len(m.file.path)
	}
	n.maps = slices.Insert(n.maps, at, m)
	n.size += size
	l.size += size
}

// behind returns how many mappings were there at a time.
func (n *life) behind(time uint64) int {
	i, _ := slices.BinarySearchFunc(n.maps, time+1, func(a timed, t uint64) int { return cmp.Compare(a.from, t) })
	return i
}

// has reports whether a mapping is the newest at its place already. The kernel tells of it again
// when its protection changes, which compilers at run time do all the time. It looks at the last
// mappings only: this must be cheap, since a process can map as fast as it likes.
func (n *life) has(m *timed) bool {
	const last = 1 << 10
	for i := len(n.maps) - 1; i >= max(0, len(n.maps)-last); i-- {
		if old := &n.maps[i]; old.from <= m.from && old.start < m.end && m.start < old.end {
			return old.mapping == m.mapping
		}
	}
	return false
}

// at returns the life that a process had at a time; nil if nothing is known.
func (l *lives) at(pid uint32, time uint64) *life {
	own := l.of[pid]
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].from <= time {
			return own[i]
		}
	}
	return nil
}

// find returns the mapping that an address was in at a time, the newest, and since when.
func (n *life) find(addr, time uint64) (m *mapping, since uint64) {
	for i := len(n.maps) - 1; i >= 0; i-- {
		if m := &n.maps[i]; m.from <= time && addr >= m.start && addr < m.end {
			return &m.mapping, m.from
		}
	}
	return nil, 0
}
