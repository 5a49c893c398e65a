// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"errors"
	"fmt"
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
	largeCode   = mostCode / 2     // and those of living ones beyond ownCode of each: the other half is for lives that ended
)

// Limits on comparing, which holds up who wants names. Whoever maps code as fast as they can makes it necessary again and again.
const (
	mostComparing = 20 * time.Millisecond // at a time
	leastReading  = 20 * time.Millisecond // for the maps of one process at first; twice as long each time that they took longer
	restComparing = 4                     // after comparing, this many times as long passes without
	leastRest     = 50 * time.Millisecond
	mostWanted    = 64 // processes that are compared before others
)

// A Source tells which code processes map. *mappings.Watcher implements it.
type Source interface {
	Take(dst []mappings.Event, time uint64) []mappings.Event
}

// lives are the processes of the machine from some moment on, by their numbers in ksnoop's
// PID namespace: a number has a life for each program that it executes.
type lives struct {
	root   fs.FS
	source Source
	events []mappings.Event
	of     map[uint32][]*life // in order of time
	count  int
	size   int     // bytes of all arrays
	large  int     // and of those of living lives, beyond ownCode
	ended  []ended // in order of time
	lost   uint64
	keeper keeper // nil: files of processes are not to be found
	doubts doubts
}

// doubts say which lives have to be compared with /proc, since something that processes did was not seen: one of them may have
// executed another program. Until that is known, its addresses have no names, rather than those of the program before.
type doubts struct {
	since, until uint64                   // all that was not seen happened between these times
	open         bool                     // when those of left are compared, others have to be
	wanted, left []uint32                 // the processes that are to be compared next, and after these
	next         time.Time                // when comparing may go on
	slow         map[uint32]time.Duration // how long the maps of processes may be read that took longer before
}

// nowhere has no files.
type nowhere struct{}

func (nowhere) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
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
		maps, err := readSomeMaps(root, uint32(pid), mostLocked)
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
	l.adjust(n.array, 0, -1, 0)
	l.ended = append(l.ended, ended{pid, n})
	if l.keeper != nil {
		l.keeper.over(pid, n)
	}
}

// update learns what has happened up to now. What was not seen before a time is known then; time may be 0 if no time matters.
func (l *lives) update(time uint64) {
	l.events = l.source.Take(l.events[:0], time)
	l.lose()
	for i := range l.events {
		l.apply(&l.events[i])
		l.forget()
	}
	l.settle()
}

// lose takes note of what is lost, all at once: to doubt lives, all are looked at.
func (l *lives) lose() {
	var since, until uint64
	for i := range l.events {
		e := &l.events[i]
		if e.Kind != mappings.Lost {
			continue
		}
		if l.lost += e.Count; e.Since == 0 { // that was told before
			continue
		}
		if until == 0 || e.Since < since {
			since = e.Since
		}
		until = max(until, e.Time)
	}
	if until > 0 {
		l.doubt(since, until)
	}
}

func (l *lives) apply(e *mappings.Event) {
	if e.PID == 0 || e.PID == ^uint32(0) { // of another PID namespace
		return
	}
	switch e.Kind {
	case mappings.Execed:
		l.begin(e.PID, &life{from: e.Time, executed: true})
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
			child.array, child.refused = parent.array, parent.refused
			child.looked = parent.looked.fork()
			if parent.doubtAt(e.Time) {
				l.doubtLife(child, e.Time)
			}
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
			if in.executedAnother(&m) {
				in = &life{from: e.Time, executed: true} // of which more may have been mapped before
				l.begin(e.PID, in)
				l.doubtLife(in, e.Time)
			}
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
	if n.array == nil {
		n.array = &array{}
	}
	l.adjust(n.array, 1, 1, 0)
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
	if n.from < l.doubts.until {
		l.doubtLife(n, l.doubts.since)
	}
	l.of[pid] = slices.Insert(own, i, n)
	l.count++
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
		l.adjust(old.life.array, -1, 0, 0)
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
	if len(n.maps) >= mostMapped || n.array.size > ownCode && (l.size > mostCode || l.large > largeCode) {
		l.lost++
		n.refused.merge(refusedOnly(&m))
		return
	}
	at := n.behind(m.from)
	size := int(unsafe.Sizeof(m)) + len(m.file.device) + len(m.file.inode) + len(m.file.buildID)
	if at > 0 && n.maps[at-1].file.path == m.file.path {
		m.file.path = n.maps[at-1].file.path // the same memory
	} else {
		size += len(m.file.path)
	}
	if n.array.lives > 1 { // Insert copies it
		living := 1
		if n.over {
			living = 0
		}
		l.adjust(n.array, -1, -living, 0)
		n.array = &array{size: n.array.size}
		l.adjust(n.array, 1, living, 0)
	}
	n.maps = slices.Insert(n.maps, at, m)
	l.adjust(n.array, 0, 0, size)
}

// adjust changes how many lives have an array and live, and its size, and with it the sums.
func (l *lives) adjust(a *array, lives, living, size int) {
	before, large := a.counts()
	a.lives, a.living, a.size = a.lives+lives, a.living+living, a.size+size
	after, larger := a.counts()
	l.size += after - before
	l.large += larger - large
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

// doubt has all lives doubted of which something may not have been seen between two times.
func (l *lives) doubt(since, until uint64) {
	d := &l.doubts
	first := since
	if d.open || len(d.left) > 0 {
		first = min(d.since, since)
	}
	d.since, d.until, d.open = first, max(d.until, until), true
	for _, own := range l.of {
		for i, n := range own {
			if n.sure < until && (i+1 == len(own) || own[i+1].from > since) {
				l.doubtLife(n, since)
			}
		}
	}
}

// doubtLife has a life doubted from a time on.
func (l *lives) doubtLife(n *life, since uint64) {
	since = max(since, n.from, n.sure, 1)
	if n.doubtful == 0 || n.doubtful > since {
		n.doubtful = since
	}
	l.doubts.open = true
}

// settle goes on comparing lives that are in doubt with /proc. Those that map the same code as before go on; others are known from
// then on.
func (l *lives) settle() {
	d, began := &l.doubts, time.Now()
	if !d.open && len(d.left) == 0 || began.Before(d.next) {
		return
	}
	if len(d.left) == 0 {
		d.open = false
		l.beginRound()
	}
	for len(d.left) > 0 && time.Since(began) < mostComparing {
		from := &d.left
		if len(d.wanted) > 0 {
			from = &d.wanted
		}
		pid := (*from)[0]
		*from = (*from)[1:]
		l.compare(pid)
	}
	d.next = time.Now().Add(max(restComparing*time.Since(began), leastRest))
}

// want has a process compared before others.
func (l *lives) want(pid uint32) {
	if d := &l.doubts; len(d.wanted) < mostWanted && !slices.Contains(d.wanted, pid) {
		d.wanted = append(d.wanted, pid)
	}
}

// beginRound lists the processes that there are. Others have ended, which was not seen either.
func (l *lives) beginRound() {
	before := mappings.Now()
	entries, err := fs.ReadDir(l.root, "proc")
	if err != nil {
		_, none := l.root.(nowhere)
		l.doubts.open = !none // it may be there later, as with a descriptor
		return
	}
	there := map[uint32]bool{}
	for _, e := range entries {
		if pid, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
			there[uint32(pid)] = true
			l.doubts.left = append(l.doubts.left, uint32(pid))
		}
	}
	for pid, own := range l.of {
		if last := own[len(own)-1]; !there[pid] && last.doubtful != 0 && last.from < before {
			l.end(pid, last)
		}
	}
	l.forget()
}

// compare compares what is known of a process with what it maps.
func (l *lives) compare(pid uint32) {
	var last *life
	if own := l.of[pid]; len(own) > 0 {
		last = own[len(own)-1]
	}
	known := last != nil && !last.over
	if known && last.doubtful == 0 || !known && l.count >= mostLives && len(l.ended) == 0 {
		return
	}
	program, main, err := l.program(pid)
	switch {
	case errors.Is(err, errKernelThread) && known && len(last.maps) > 0: // which has the number of a process that ended unseen
		l.end(pid, last)
		return
	case errors.Is(err, errKernelThread) && known:
		last.doubtful = 0 // it has no code that anybody could take for another's
		return
	case err != nil:
		l.doubts.open = l.doubts.open || !hopeless(err)
		return
	}
	since := mappings.Now()
	limit := max(l.doubts.slow[pid], leastReading)
	maps, err := readSomeMaps(l.root, pid, limit)
	cut := errors.Is(err, errCutMaps)
	switch {
	case err == nil || cut:
		delete(l.doubts.slow, pid)
		if known {
			last.denied = false
		}
	case hopeless(err):
		if known {
			last.denied = errors.Is(err, fs.ErrPermission)
		}
		return
	default: // which is not for ever; errNoMaps while it executes another one
		if errors.Is(err, mapsReads.Late) {
			l.slower(pid, 2*limit)
		}
		l.doubts.open = true
		return
	}
	if still, _, err := l.program(pid); err != nil || still != program || still.executing() { // it has executed another one meanwhile, or does
		l.doubts.open = true
		return
	}
	if known {
		more, same := last.same(maps)
		if same {
			last.doubtful, last.sure = 0, since
			last.others, last.unlisted, last.mainEnded = nil, true, !main // threads may have begun and ended
		}
		if known = same && last.refused == (refused{}); known { // or another life begins, which has room for all
			maps = more
		}
	}
	if !known {
		last = &life{from: since, sure: since, unlisted: true, mainEnded: !main}
		l.begin(pid, last)
		l.forget()
		if cut {
			l.lost++
		}
	}
	for _, m := range maps {
		l.add(last, timed{mapping: m, from: since})
	}
	l.keep(pid, last)
}

// slower allows more time for the maps of a process.
func (l *lives) slower(pid uint32, limit time.Duration) {
	d := &l.doubts
	if d.slow == nil || len(d.slow) >= mostSpaces {
		d.slow = map[uint32]time.Duration{}
	}
	d.slow[pid] = min(limit, mostLocked)
}

var (
	errEnded        = errors.New("the process has ended")
	errKernelThread = errors.New("a thread of the kernel")
)

// hopeless reports whether an error of /proc says that nothing is to be learned of a process, also later.
func hopeless(err error) bool {
	return gone(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, errEnded) || errors.Is(err, errKernelThread)
}

// program returns what tells the program of a process from others that it executes, and whether its main thread is there.
func (l *lives) program(pid uint32) (id identity, main bool, err error) {
	if id, err = l.programIn(procOf(pid)); !errors.Is(err, errEnded) {
		return id, true, err
	}
	others, unread := otherThreads(l.root, pid)
	for tid := range others {
		id, failed := l.programIn(fmt.Sprintf("%s/task/%d", procOf(pid), tid))
		switch {
		case failed == nil:
			return id, false, nil
		case !hopeless(failed):
			unread = failed
		}
	}
	return id, false, cmp.Or(unread, err)
}

// programIn is program by the folder of a thread in /proc.
func (l *lives) programIn(folder string) (id identity, err error) {
	stat, err := fs.ReadFile(l.root, folder+"/stat")
	switch {
	case err != nil:
		return id, err
	case ofKernel(stat):
		return id, errKernelThread
	case exits(stat):
		return id, errEnded
	}
	_, id, ok := parseStat(stat)
	if !ok {
		err = errEnded
	}
	return id, err
}
