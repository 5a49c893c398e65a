// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/mappings"
)

// mappedAt is an event of process 7, which maps a page of a file.
func mappedAt(time, page uint64, file string) *mappings.Event {
	return &mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: time, Start: page << 12, End: (page + 1) << 12, Path: file}
}

// TestLateMapping: what a process is known late to have mapped before a fork changes nothing of what its
// child has.
func TestLateMapping(t *testing.T) {
	const most = 20
	for count := range uint64(most) { // arrays have room for more after some of these
		l := newLives(fstest.MapFS{}, &told{})
		l.apply(&mappings.Event{Kind: mappings.Execed, PID: 7, TID: 7, Time: 50})
		for page := range count {
			l.apply(mappedAt(100+10*page, page, fmt.Sprint("/", page)))
		}
		l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 1000})
		l.apply(mappedAt(95, most, "/late"))
		child := l.at(8, 1000)
		for page := range count {
			if m, _ := child.find(page<<12, 1000); m == nil || m.file.path != fmt.Sprint("/", page) {
				t.Errorf("%d mappings: the child has %v at page %d", count, m, page)
			}
		}
		if m, _ := l.at(7, 1000).find(most<<12, 1000); m == nil || m.file.path != "/late" {
			t.Errorf("%d mappings: %v is what was late", count, m)
		}
	}
}

// TestLateFork: a fork that is told late gives a process what its parent had mapped then, and up to its exec only.
func TestLateFork(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	keeper := &ends{}
	l.keeper = keeper
	l.apply(&mappings.Event{Kind: mappings.Execed, PID: 7, TID: 7, Time: 1})
	l.apply(mappedAt(5, 1, "/bin/sh"))
	l.apply(mappedAt(15, 2, "/lib/later"))
	l.apply(&mappings.Event{Kind: mappings.Execed, PID: 8, TID: 8, Time: 20})
	own := mappedAt(21, 3, "/bin/ls")
	own.PID, own.TID = 8, 8
	l.apply(own)
	l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 10})
	for _, c := range []struct {
		time, page uint64
		want       string
	}{{10, 1, "/bin/sh"}, {19, 1, "/bin/sh"}, {19, 2, ""}, {21, 1, ""}, {21, 3, "/bin/ls"}, {99, 1, ""}, {99, 3, "/bin/ls"}} {
		got := ""
		if m, _ := l.at(8, c.time).find(c.page<<12, c.time); m != nil {
			got = m.file.path
		}
		if got != c.want {
			t.Errorf("page %d at %d: %q, want %q", c.page, c.time, got, c.want)
		}
	}
	if want := []uint64{10}; !slices.Equal(keeper.of, want) {
		t.Errorf("over are the lives from %d, want %d", keeper.of, want)
	}
	l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 40}) // the number is used again
	l.apply(&mappings.Event{Kind: mappings.Ended, PID: 8, TID: 8, Time: 30})
	if want := []uint64{10, 20}; !slices.Equal(keeper.of, want) {
		t.Errorf("over are the lives from %d, want %d", keeper.of, want)
	}
}

// ends is a keeper that takes note of which lives are over.
type ends struct{ of []uint64 }

func (e *ends) generates(_ uint32, of *life) { of.generates = true }
func (e *ends) over(_ uint32, of *life)      { e.of = append(e.of, of.from) }

// listings is a file system that counts how often threads are listed. It fails with some names.
type listings struct {
	fstest.MapFS
	count int
	fails map[string]error
}

func (f *listings) ReadDir(name string) ([]fs.DirEntry, error) {
	if strings.HasSuffix(name, "/task") {
		f.count++
	}
	if err := f.fails[name]; err != nil {
		return nil, err
	}
	return f.MapFS.ReadDir(name)
}

func (f *listings) Open(name string) (fs.File, error) {
	if err := f.fails[name]; err != nil {
		return nil, err
	}
	return f.MapFS.Open(name)
}

func (f *listings) ReadFile(name string) ([]byte, error) {
	if err := f.fails[name]; err != nil {
		return nil, err
	}
	return f.MapFS.ReadFile(name)
}

// TestThreadsListed: the threads of a process that was there before are listed when its main thread has ended, and not earlier.
// A process is over with the last one that goes on.
func TestThreadsListed(t *testing.T) {
	const runs, exits = "9 (java) S 1 7 7 0 -1 4194368 0", "9 (java) R 1 7 7 0 -1 4194372 0" // with PF_EXITING
	ended := func(tid uint32, time uint64) mappings.Event {
		return mappings.Event{Kind: mappings.Ended, PID: 7, TID: tid, Time: time}
	}
	forked := func(time uint64) mappings.Event {
		return mappings.Event{Kind: mappings.Forked, PID: 7, TID: 7, Parent: 5, Time: time}
	}
	for name, c := range map[string]struct {
		threads  map[uint32]string // that are there when events are read, with their stat
		events   []mappings.Event
		over     []int // how many lives are over after each event
		listings int
	}{
		"another thread ends":               {map[uint32]string{7: runs, 9: runs}, []mappings.Event{ended(9, 8)}, []int{0}, 0},
		"another thread goes on":            {map[uint32]string{7: exits, 9: runs}, []mappings.Event{ended(7, 8), ended(9, 9)}, []int{0, 1}, 1},
		"the others have ended before":      {map[uint32]string{7: exits}, []mappings.Event{ended(9, 8), ended(7, 9)}, []int{0, 1}, 1},
		"the end of another thread is lost": {map[uint32]string{7: exits}, []mappings.Event{ended(7, 9)}, []int{1}, 1},
		"another thread is on its way out":  {map[uint32]string{7: exits, 9: exits}, []mappings.Event{ended(9, 8), ended(7, 9)}, []int{0, 1}, 1},
		"nothing is left":                   {nil, []mappings.Event{ended(7, 8), ended(9, 9)}, []int{1, 1}, 1},
		"the number is used again":          {map[uint32]string{7: runs, 20: runs}, []mappings.Event{ended(7, 8), forked(10)}, []int{0, 1}, 1},
		"and its end is told late":          {map[uint32]string{7: runs, 20: runs}, []mappings.Event{forked(10), ended(7, 8)}, []int{1, 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := &listings{MapFS: fstest.MapFS{"proc/7/maps": {Data: []byte("5000-6000 r-xp 0 00:00 0 \n")}, "proc/7/task/9/stat": {Data: []byte(runs)}}}
			l := newLives(root, &told{})
			keeper := &ends{}
			l.keeper = keeper
			l.keepAll()
			root.MapFS = fstest.MapFS{}
			for tid, stat := range c.threads {
				root.MapFS[fmt.Sprintf("proc/7/task/%d/stat", tid)] = &fstest.MapFile{Data: []byte(stat)}
			}
			for i := range c.events {
				l.apply(&c.events[i])
				if over := len(keeper.of); over != c.over[i] {
					t.Errorf("after event %d, %d lives are over, want %d", i, over, c.over[i])
				}
			}
			if root.count != c.listings {
				t.Errorf("threads were listed %d times, want %d", root.count, c.listings)
			}
		})
	}
}

// TestThreadsNotListed: the threads of a process that generates no code are not listed.
func TestThreadsNotListed(t *testing.T) {
	root := &listings{MapFS: fstest.MapFS{"proc/7/maps": {Data: []byte("5000-6000 r-xp 0 00:00 1 /bin/sh\n")}, "proc/7/task/9/stat": {Data: []byte("9 (sh) S 1")}}}
	l := newLives(root, &told{})
	l.keeper = &ends{}
	l.keepAll()
	l.apply(&mappings.Event{Kind: mappings.Ended, PID: 7, TID: 7, Time: 8})
	if root.count != 0 || !l.at(7, 8).over {
		t.Errorf("threads were listed %d times, and over is %v", root.count, l.at(7, 8).over)
	}
}

// TestThreadsFail: a thread has ended only if /proc says so, and not if ksnoop has no descriptor left.
func TestThreadsFail(t *testing.T) {
	const dir, stat = "proc/7/task", "proc/7/task/9/stat"
	for name, c := range map[string]struct {
		file     string
		err      error
		over     bool // with the main thread
		listings int
	}{
		"the process has ended":           {dir, unix.ESRCH, true, 1},
		"the thread has ended":            {stat, unix.ESRCH, true, 1},
		"the thread has left /proc":       {stat, fs.ErrNotExist, true, 1},
		"no descriptor for the directory": {dir, unix.EMFILE, false, 2},
		"no descriptor for a thread":      {stat, unix.EMFILE, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := &listings{MapFS: fstest.MapFS{"proc/7/maps": {Data: []byte("5000-6000 r-xp 0 00:00 0 \n")}, stat: {Data: []byte("9 (java) S 1 7 7 0 -1 4194368 0")}}}
			l := newLives(root, &told{})
			l.keeper = &ends{}
			l.keepAll()
			root.fails = map[string]error{c.file: c.err}
			l.apply(&mappings.Event{Kind: mappings.Ended, PID: 7, TID: 7, Time: 8})
			if n := l.at(7, 8); n.over != c.over {
				t.Errorf("with the main thread it is over: %v, want %v", n.over, c.over)
			}
			root.MapFS, root.fails = fstest.MapFS{}, nil
			l.apply(&mappings.Event{Kind: mappings.Ended, PID: 7, TID: 9, Time: 9})
			if n := l.at(7, 9); !n.over || root.count != c.listings {
				t.Errorf("with the last thread it is over: %v; threads were listed %d times, want %d", n.over, root.count, c.listings)
			}
		})
	}
}

// TestEndedOnce: the end of a life is told once, however many ends of threads follow.
func TestEndedOnce(t *testing.T) {
	l := newLives(fstest.MapFS{"proc/7/maps": {Data: []byte("5000-6000 r-xp 0 00:00 1 /bin/sh\n")}}, &told{})
	for tid := range uint32(10) {
		l.apply(&mappings.Event{Kind: mappings.Ended, PID: 7, TID: 7 + tid, Time: 8})
	}
	if len(l.ended) != 1 {
		t.Errorf("%d ends are kept, want 1", len(l.ended))
	}
}

// TestMappedAgain: mappings that are told again take no room, however often that happens, and what has no
// room is counted.
func TestMappedAgain(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	for time := range uint64(2 * mostMapped) { // a compiler at run time changes the protection of its code
		l.apply(mappedAt(1+time, 5, "//anon"))
	}
	const half = 0x800
	upper := mappedAt(1<<20, 5, "/upper")
	upper.Start += half
	l.apply(upper)
	at := func(addr, time uint64) string {
		m, _ := l.at(7, time).find(addr, time)
		if m == nil {
			return ""
		}
		return m.file.path
	}
	if got := at(5<<12+half, 1<<20); got != "/upper" {
		t.Errorf("after all that: %q", got)
	}
	l.apply(mappedAt(1<<20+1, 5, "//anon")) // not the newest at all of its place
	if got := at(5<<12+half, 1<<20+1); got != "//anon" {
		t.Errorf("mapped once more: %q", got)
	}
	if got := at(5<<12+half, 1<<20); got != "/upper" {
		t.Errorf("before that: %q", got)
	}
	if l.lost != 0 || len(l.at(7, 1).maps) != 3 {
		t.Errorf("%d lost, %d mappings", l.lost, len(l.at(7, 1).maps))
	}

	const more = 10
	for n := range uint64(mostMapped + more) {
		l.apply(mappedAt(1<<21+n, 100+n, "/file"))
	}
	if l.lost != 3+more {
		t.Errorf("%d lost, want %d", l.lost, 3+more)
	}
	l.apply(mappedAt(1<<22, 100+mostMapped-4, "/file")) // it is there, the last that had room
	if l.lost != 3+more {
		t.Errorf("what is there is lost")
	}
}

// maps are events of a process that begins a program and maps pieces of as many files, each with a long path.
func (s *told) maps(pid uint32, time uint64, pieces int) {
	path := "/" + strings.Repeat("x", 1<<13)
	events := []mappings.Event{{Kind: mappings.Execed, PID: pid, TID: pid, Time: time}}
	for n := range pieces {
		e := mappedAt(time+1, uint64(n+1), path[:len(path)-n%(1<<10)]) // no copy of it
		e.PID, e.TID = pid, pid
		events = append(events, *e)
	}
	*s = append(*s, events)
}

// TestLivesForgotten: the mappings of all lives together take no more than so much. Those that ended first are forgotten. Those that
// live do not take all of the room, and each has some of its own.
func TestLivesForgotten(t *testing.T) {
	const pieces = 5000
	source := &told{}
	l := newLives(fstest.MapFS{}, source)
	check := func(what string, lost uint64) {
		t.Helper()
		l.update(0)
		size, large, count := 0, 0, 0
		arrays, living := map[*timed]int{}, map[*timed]int{} // that of parent and child is one
		for _, own := range l.of {
			for _, n := range own {
				arrays[&n.maps[0]] = n.array.size
				if !n.over {
					living[&n.maps[0]] = max(0, n.array.size-ownCode)
				}
				count++
			}
		}
		for array := range arrays {
			size, large = size+arrays[array], large+living[array]
		}
		if large != l.large {
			t.Errorf("%s: %d bytes of large ones that live, counted are %d", what, large, l.large)
		}
		if size != l.size || count != l.count || l.size > mostCode+1<<20 || l.lost != lost {
			t.Errorf("%s: %d lives with %d bytes, counted are %d with %d; %d lost, want %d", what, count, size, l.count, l.size, l.lost, lost)
		}
	}
	known := func(pid uint32, time uint64) bool {
		n := l.at(pid, time)
		if n == nil {
			return false
		}
		m, _ := n.find(pieces<<12, time)
		return m != nil
	}
	const programs = 6
	for n := range uint64(programs) {
		source.maps(7, 100*(n+1), pieces)
		check("a life", 0)
	}
	for n := range uint64(programs) {
		if got, want := known(7, 100*(n+1)+1), n >= programs-3; got != want {
			t.Errorf("life %d is known: %v", n, got)
		}
	}
	*source = append(*source, []mappings.Event{{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 1000}, {Kind: mappings.Ended, PID: 8, TID: 8, Time: 1001}})
	check("a child has ended", 0)
	if !known(7, 1000) || !known(8, 1000) || !known(7, 401) {
		t.Errorf("known are the parent: %v, its child: %v, the life that ended first: %v", known(7, 1000), known(8, 1000), known(7, 401))
	}
	grandchild := *mappedAt(1002, pieces+1, "/own") // which makes what its parent has its own
	grandchild.PID, grandchild.TID = 14, 14
	*source = append(*source, []mappings.Event{{Kind: mappings.Forked, PID: 14, TID: 14, Parent: 7, Time: 1001}, grandchild, {Kind: mappings.Ended, PID: 14, TID: 14, Time: 1003}})
	check("a child has mapped more", 0)
	if !known(7, 1000) || !known(14, 1002) || known(7, 401) {
		t.Errorf("known are the parent: %v, its child: %v, the life that ended first: %v", known(7, 1000), known(14, 1002), known(7, 401))
	}
	for pid := uint32(9); pid < 12; pid++ {
		source.maps(pid, 2000, pieces)
	}
	for range 3 {
		l.update(0)
	}
	lost := l.lost
	check("others live", lost)
	if lost < 2*pieces || lost >= 3*pieces-3*ownCode>>13 || !known(7, 2000) || known(9, 2001) || known(11, 2001) {
		t.Errorf("%d lost, known are %v, %v, %v", lost, known(7, 2000), known(9, 2001), known(11, 2001))
	}
	if !known(8, 1000) || !known(14, 1002) {
		t.Errorf("large programs that live took the names of those that ended: known are %v, %v", known(8, 1000), known(14, 1002))
	}
	source.maps(12, 3000, ownCode>>13)
	check("a small one", lost)
	source.maps(13, 3000, pieces)
	l.update(0)
	if more := l.lost - lost; more < pieces-2*ownCode>>13 || more >= pieces {
		t.Errorf("of %d pieces %d have no room", pieces, more)
	}
}

// TestRefused: a mapping for which there is no room hides what was at its place before, from then on. Two hide what is between them.
func TestRefused(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	for n := range uint64(mostMapped) {
		l.apply(mappedAt(n, n, "/old"))
	}
	l.apply(mappedAt(mostMapped+10, 5, "/new"))
	l.apply(mappedAt(mostMapped+20, 7, "/new"))
	for _, c := range []struct {
		page, time uint64
		known      bool
	}{{5, mostMapped + 9, true}, {5, mostMapped + 10, false}, {4, mostMapped + 30, true}, {6, mostMapped + 30, false}, {7, mostMapped + 30, false}, {8, mostMapped + 30, true}} {
		if m, _ := l.at(7, c.time).find(c.page<<12, c.time); (m != nil) != c.known {
			t.Errorf("page %d at %d: %+v", c.page, c.time, m)
		}
	}
	l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: mostMapped + 40})
	if m, _ := l.at(8, mostMapped+50).find(5<<12, mostMapped+50); m != nil {
		t.Errorf("a child has %+v", m)
	}
}

// TestPathsShared: pieces of a file have its path once.
func TestPathsShared(t *testing.T) {
	l := newLives(fstest.MapFS{}, &told{})
	const pieces, path = 100, "/lib/x"
	for n := range uint64(pieces) {
		l.apply(mappedAt(n, n, strings.Clone(path)))
	}
	maps := l.at(7, pieces).maps
	if unsafe.StringData(maps[0].file.path) != unsafe.StringData(maps[pieces-1].file.path) || l.size != pieces*int(unsafe.Sizeof(timed{}))+len(path) {
		t.Errorf("%d bytes", l.size)
	}
}

// A slow root takes so long to open a file.
type slow struct{ fs.FS }

const slowly = mostLocked / 2

func (s slow) Open(name string) (fs.File, error) {
	time.Sleep(slowly)
	return s.FS.Open(name)
}

// TestMapsSlow: what processes have mapped before may take long to read, and only so much time is spent on it.
func TestMapsSlow(t *testing.T) {
	const processes = 30
	root := fstest.MapFS{}
	for n := range processes {
		root[fmt.Sprintf("proc/%d/maps", n+1)] = &fstest.MapFile{Data: []byte("5000-6000 r-xp 0 00:00 1 /bin/sh\n")}
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLives(slow{root}, &told{})
		if l.count != int(mostReading/slowly)+1 || l.lost != uint64(processes-l.count) {
			t.Errorf("%d of %d processes are known, %d lost", l.count, processes, l.lost)
		}
	})
}

// TestMapsRead: of what a process had mapped before, only as much is kept as of any other.
func TestMapsRead(t *testing.T) {
	var maps strings.Builder
	for n := range mostMapped + 3 {
		fmt.Fprintf(&maps, "%x000-%x000 r-xp 0 00:00 1 /bin/sh\n", n+1, n+2)
	}
	l := newLives(fstest.MapFS{"proc/7/maps": {Data: []byte(maps.String())}}, &told{})
	if n := l.at(7, 0); len(n.maps) != mostMapped || n.array.size != l.size || l.lost != 3 {
		t.Errorf("%d mappings, %d of %d bytes, %d lost", len(n.maps), n.array.size, l.size, l.lost)
	}
}

// A locked root is one in which the mappings of process 7 are locked until unlock is closed.
type locked struct {
	fstest.MapFS
	unlock chan struct{}
}

func (l locked) Open(name string) (fs.File, error) {
	if name == "proc/7/maps" {
		<-l.unlock
	}
	return l.MapFS.Open(name)
}

// TestLockedMaps: a process that keeps its mappings locked is waited for only so long, and counted. The others are known.
func TestLockedMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const line = "5000-6000 r-xp 00000000 fe:01 131 /bin/x\n"
		root := locked{fstest.MapFS{"proc/7/maps": {Data: []byte(line)}, "proc/8/maps": {Data: []byte(line)}}, make(chan struct{})}
		begin := time.Now()
		l := newLives(root, &told{})
		if len(l.of) != 1 || l.at(8, 1) == nil || l.lost != 1 || time.Since(begin) != mostLocked {
			t.Errorf("%v, %d lost, after %v", l.of, l.lost, time.Since(begin))
		}
		if _, err := readMaps(root, 7); !mapsReads.GaveUp(err) || err.Error() != "its mappings are locked" {
			t.Error(err)
		}
		const want = "process 7 keeps its memory mappings locked: with a breakpoint the kernel would wait for it, and no process could fork"
		if err := CheckLocks(t.Context(), root); err == nil || err.Error() != want {
			t.Error(err)
		}
		close(root.unlock)
		synctest.Wait()
		if err := CheckLocks(t.Context(), root); err != nil {
			t.Error(err)
		}
		if maps, err := readMaps(root, 7); len(maps) != 1 || err != nil {
			t.Errorf("%v, %v", maps, err)
		}
	})
}
