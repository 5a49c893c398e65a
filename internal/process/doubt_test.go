// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// TestDoubt: what was not seen may be that a process has executed another program. From then on its addresses have the names of what
// it maps now, and none as long as that is not known, live and in a recording.
func TestDoubt(t *testing.T) { synctest.Test(t, testDoubt) }

// TestDoubtDenied: without the right to read what a process maps it stays in doubt, and that is said.
func TestDoubtDenied(t *testing.T) {
	root := &listings{MapFS: fstest.MapFS{"proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}, fails: map[string]error{"proc/7/maps": unix.EACCES}}
	source := &told{{*mappedAt(10, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 20, Time: 30, Count: 1}}}
	s := Following(fstest.MapFS{}, NumberedOurs, source, false)
	s.lives.root = root
	e := &bpf.Event{PID: 7, TID: 7, Time: 40}
	s.Of(e, "sh")
	s.lives.doubts.next = time.Time{}
	const want = "process 7 may have executed another program, which was not seen, and ksnoop may not read /proc/7/maps (CAP_SYS_PTRACE)"
	if why := s.Of(e, "sh").Missing(); why != want {
		t.Errorf("%q", why)
	}
}

func testDoubt(t *testing.T) {
	shell := "00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n"
	root := fstest.MapFS{
		"proc/7/maps": {Data: []byte(shell + "00009000-0000a000 r-xp 00000000 00:00 0\n")}, // it goes on, with code of its own
		"proc/7/stat": {Data: []byte(stat("sh", 1, 2))},
		"proc/8/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 132 /bin/other\n")}, // it has executed another program
		"proc/8/stat": {Data: []byte(stat("other", 1, 2))},
		"proc/9/maps": {Data: []byte(shell)}, // its fork was not seen
		"proc/9/stat": {Data: []byte(stat("sh", 1, 2))},
	}
	source := &told{}
	s := Following(fstest.MapFS{}, NumberedOurs, source, false)
	s.lives.root = root
	r, replay := s.NewRecorder(), NewRecorded()
	shows := func(pid uint32, time uint64, page uint64, want string) {
		t.Helper()
		e := &bpf.Event{PID: pid + 4000, TID: pid + 4000, Time: time} // as in the initial PID namespace
		e.Inner.PID, e.Inner.TID, e.Inner.Ours = pid, pid, true
		addr := page<<12 + 8
		p := s.Of(e, "a")
		got := string(p.AppendFrame(nil, addr, false))
		place := "0x" + strconv.FormatUint(addr, 16)
		if want == "" {
			want = place
			if p.Missing() != fmt.Sprintf("process %d may have executed another program, which was not seen", pid) {
				t.Errorf("process %d at %d: %q is why", pid, time, p.Missing())
			}
		} else {
			want = place + " (" + want + ")"
		}
		if got != want {
			t.Errorf("process %d at %d: %q, want %q", pid, time, got, want)
		}
		block := r.Append(nil, e, []bpf.UserFrame{bpf.NewUserFrame(addr, 0, true)})
		if err := replay.Add(block); err != nil {
			t.Fatal(err)
		}
		if why := replay.Of(e).Missing(); want == place && why != p.Missing() || want != place && why != "" {
			t.Errorf("process %d at %d, replayed: %q is why", pid, time, why)
		}
		if got := string(replay.Of(e).AppendFrame(nil, addr, false)); got != want {
			t.Errorf("process %d at %d, replayed: %q, want %q", pid, time, got, want)
		}
	}
	*source = append(*source, []mappings.Event{
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"),
		{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 20},
		{Kind: mappings.Forked, PID: 10, TID: 10, Parent: 7, Time: 20}, // it ends before anybody looks
	})
	for _, pid := range []uint32{7, 8, 10} {
		shows(pid, 25, 1, "/bin/sh")
	}
	*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: 40, Count: 2},
		{Kind: mappings.Forked, PID: 11, TID: 11, Parent: 10, Time: 50}, {Kind: mappings.Forked, PID: 12, TID: 12, Parent: 10, Time: 20}}) // the last is told late
	shows(7, 35, 1, "/bin/sh")
	shows(7, math.MaxInt64, 9, anonymous)
	shows(8, 29, 1, "/bin/sh")
	shows(8, 35, 1, "")
	shows(8, math.MaxInt64, 1, "/bin/other")
	shows(9, math.MaxInt64, 1, "/bin/sh")
	for pid, times := range map[uint32][2]uint64{10: {29, 30}, 11: {0, 50}, 12: {29, 35}} {
		if times[0] > 0 {
			shows(pid, times[0], 1, "/bin/sh")
		}
		if times[1] > 0 {
			shows(pid, times[1], 1, "")
		}
	}
	if n := s.Unseen(); n != 2 {
		t.Errorf("%d are not seen", n)
	}
	r = s.NewRecorder() // of the next part of the recording
	shows(7, math.MaxInt64, 1, "/bin/sh")
	shows(7, 34, 1, "/bin/sh")                                                                                    // read late
	*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: mappings.Now(), Count: 2}}) // told later
	s.lives.doubts.next = time.Now().Add(time.Hour)
	shows(7, 35, 1, "/bin/sh") // it was compared since
	shows(7, math.MaxInt64, 1, "")
	*source = append(*source, []mappings.Event{{Kind: mappings.Forked, PID: 13, TID: 13, Parent: 8, Time: 60}})
	s.lives.update(0)
	if !s.lives.doubts.open {
		t.Error("a child of a process in doubt is not to be compared")
	}
}

// TestDoubtAgain: /proc is read again only after a rest. What turns out to go on has names again.
func TestDoubtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh")}}
		l := newLives(root, source)
		l.of = map[uint32][]*life{}
		l.update(0)
		l.doubts.next = time.Now().Add(time.Second)
		*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: 40}}, nil)
		if l.update(0); !l.at(7, 35).doubtAt(35) || l.at(7, 35).doubtAt(29) {
			t.Error("there is no doubt")
		}
		time.Sleep(time.Second)
		if l.update(0); l.at(7, 35).doubtAt(35) {
			t.Error("the doubt stays")
		}
	})
}

// TestDoubtEnded: a process whose end was not seen is over when /proc does not have it, and one whose mappings are locked is compared
// later.
func TestDoubtEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 20},
			{Kind: mappings.Lost, Since: 30, Time: 40}}}
		l := newLives(fstest.MapFS{}, source)
		l.root = lockedMaps{root}
		l.update(0)
		if !l.at(8, 50).over || l.at(7, 50).over || !l.at(7, 50).doubtAt(50) || !l.doubts.open {
			t.Errorf("over are 8: %v and 7: %v, in doubt is 7: %v", l.at(8, 50).over, l.at(7, 50).over, l.at(7, 50).doubtAt(50))
		}
		l.root = root
		time.Sleep(time.Minute)
		if l.update(0); l.at(7, 50).doubtAt(50) {
			t.Error("the doubt stays")
		}
	})
}

// lockedMaps are those of processes that keep their mappings locked for a while.
type lockedMaps struct{ fstest.MapFS }

func (f lockedMaps) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/maps") {
		time.Sleep(time.Second)
	}
	return f.MapFS.Open(name)
}

// TestSameProgram: a process goes on with its program if all its code is where it was, the vDSO included, whatever it has generated.
func TestSameProgram(t *testing.T) {
	const program, vdsoAt, generated = "00400000-00401000 r-xp 00001000 fe:01 131 /bin/app\n", "7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n", "900000-901000 r-xp 00000000 00:00 0\n"
	n := &life{}
	maps, err := parseMaps(strings.NewReader(program + vdsoAt + generated))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		n.maps = append(n.maps, timed{mapping: m})
	}
	for _, m := range []mapping{{start: 0xb00000, end: 0xb06000, file: fileID{path: "/lib/old"}}, {start: 0xaff000, end: 0xb01000, file: fileID{path: "/lib/late"}}} {
		n.maps = append(n.maps, timed{mapping: m})
	}
	for name, c := range map[string]struct {
		maps string
		more int
		same bool
	}{
		"the same":             {program + vdsoAt + generated, 0, true},
		"in another root":      {strings.Replace(program, "/bin/app", "/root/bin/app (deleted)", 1) + vdsoAt, 0, true},
		"more code of its own": {program + vdsoAt + "910000-920000 r-xp 00000000 00:00 0\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n", 1, true},
		"the same once more":   {program + strings.Replace(vdsoAt, "7ff000", "7fe000", 1), 0, false},
		"of another name":      {strings.Replace(program, "app", "other", 1) + vdsoAt, 0, false},
		"another part":         {strings.Replace(program, "00001000 fe", "00002000 fe", 1) + vdsoAt, 0, false},
		"more of a file":       {program + vdsoAt + "a00000-a01000 r-xp 00000000 fe:01 132 /lib/new\n", 0, false},
		"in two pieces":        {"00400000-00400800 r-xp 00001000 fe:01 131 /bin/app\n00400800-00401000 r-xp 00001800 fe:01 131 /bin/app\n" + vdsoAt, 2, true},
		"in wrong pieces":      {"00400000-00400800 r-xp 00001000 fe:01 131 /bin/app\n00400800-00401000 r-xp 00001000 fe:01 131 /bin/app\n" + vdsoAt, 0, false},
		// Of what was there before another mapping, nothing says that it is there again: find returns the newer one.
		"what was hidden": {program + vdsoAt + "b00000-b02000 r-xp 00000000 fe:01 132 /lib/old\n", 0, false},
		"what hides it":   {program + vdsoAt + "aff000-b01000 r-xp 00000000 fe:01 133 /lib/late\n", 0, true},
		"behind it":       {program + vdsoAt + "b04000-b05000 r-xp 00004000 fe:01 132 /lib/old\n", 1, true},
	} {
		maps, err := parseMaps(strings.NewReader(c.maps))
		if err != nil {
			t.Fatal(err)
		}
		if more, same := n.same(maps); len(more) != c.more || same != c.same {
			t.Errorf("%s: %v, %v", name, more, same)
		}
	}
}

// TestDoubtSlow: maps that take long to read are read for longer the next time.
func TestDoubtSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := slowMaps{fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}, new(int), time.Second / 10}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 30, Time: 40}}}
		l := newLives(fstest.MapFS{}, source)
		l.root = root
		began := time.Now()
		for l.update(0); l.at(7, 50).doubtAt(50); l.update(0) {
			if time.Sleep(time.Millisecond); time.Since(began) > 5*time.Second {
				t.Fatal("the doubt stays")
			}
		}
		if *root.reads > 8 {
			t.Errorf("the maps were read %d times", *root.reads)
		}
		if len(l.doubts.slow) != 0 {
			t.Errorf("%v stays", l.doubts.slow)
		}
		time.Sleep(time.Second) // readings that were given up
	})
}

// slowMaps take so long.
type slowMaps struct {
	fstest.MapFS
	reads *int
	each  time.Duration
}

func (f slowMaps) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/maps") {
		*f.reads++
		time.Sleep(f.each)
	}
	return f.MapFS.Open(name)
}

// TestDoubtRests: comparing takes no more than a part of the time, however many processes are in doubt and however often.
func TestDoubtRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, each = 100, 10 * time.Millisecond
		files := fstest.MapFS{}
		source := &told{}
		for pid := range uint32(processes) {
			files[procOf(pid+1)+"/maps"] = &fstest.MapFile{Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}
			files[procOf(pid+1)+"/stat"] = &fstest.MapFile{Data: []byte(stat("sh", 1, 2))}
			*source = append(*source, []mappings.Event{{Kind: mappings.Execed, PID: pid + 1, TID: pid + 1, Time: 10}, {Kind: mappings.Lost, Since: 30, Time: mappings.Now()}})
		}
		l := newLives(fstest.MapFS{}, source)
		reads := 0
		l.root = slowMaps{files, &reads, each}
		began := time.Now()
		for time.Since(began) < 3*time.Second {
			*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: mappings.Now()}})
			l.update(0)
			time.Sleep(time.Millisecond)
		}
		if most := int(time.Since(began)/each)/(1+restComparing) + 3; reads > most || reads < most/2 {
			t.Errorf("%d maps were read, want %d at most", reads, most)
		}
	})
}

// TestDoubtMany: a process whose fork was not seen is compared though as many are known as are remembered. Those that ended first make
// room.
func TestDoubtMany(t *testing.T) {
	root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
	source := &told{{}}
	for n := range uint64(mostLives) {
		(*source)[0] = append((*source)[0], mappings.Event{Kind: mappings.Execed, PID: 8, TID: 8, Time: n})
	}
	l := newLives(fstest.MapFS{}, source)
	l.root = root
	l.update(0)
	*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: mostLives, Time: mostLives}})
	before := l.count
	l.update(0)
	if n := l.at(7, math.MaxUint64); before != mostLives || n == nil || n.doubtful != 0 || l.count > mostLives {
		t.Errorf("of %d lives, then %d: %+v", before, l.count, n)
	}
}

// TestDoubtExecuting: a process that executes another program maps nothing yet but the vsyscall page, which each process has. Only when
// it does is it known what it maps.
func TestDoubtExecuting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/stat": {Data: []byte(stat("sh", 0, 0))}}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 30, Time: 40}}}
		l := newLives(fstest.MapFS{}, source)
		l.root = root
		for _, maps := range []string{"", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"} { // arm64 has none
			root["proc/7/maps"] = &fstest.MapFile{Data: []byte(maps)}
			if l.update(0); !l.at(7, 50).doubtAt(50) || !l.doubts.open {
				t.Errorf("%q: in doubt %v, to be compared again %v", maps, l.at(7, 50).doubtAt(50), l.doubts.open)
			}
			time.Sleep(time.Second)
		}
		root["proc/7/maps"] = &fstest.MapFile{Data: []byte("00001000-00002000 r-xp 00000000 fe:01 132 /bin/other\n")}
		root["proc/7/stat"] = &fstest.MapFile{Data: []byte(stat("other", 1, 2))}
		l.update(0)
		if m, _ := l.at(7, math.MaxUint64).find(0x1008, math.MaxUint64); m == nil || m.file.path != "/bin/other" || !l.at(7, 50).doubtAt(50) {
			t.Errorf("it maps %+v", m)
		}
	})
}

// TestDoubtKernelThread: a thread of the kernel, of whose fork the kernel tells, too, is no reason to look again and again.
func TestDoubtKernelThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/maps": {}, "proc/7/stat": {Data: []byte("7 (kworker/1:2) I 2 0 0 0 -1 69238880" + strings.Repeat(" 0", 25))}}
		source := &told{{{Kind: mappings.Forked, PID: 7, TID: 7, Parent: 2, Time: 35}, {Kind: mappings.Lost, Since: 30, Time: 40}}}
		l := newLives(fstest.MapFS{}, source)
		l.root = root
		for range 3 {
			l.update(0)
			time.Sleep(time.Second)
		}
		if l.doubts.open || len(l.doubts.left) > 0 || l.at(7, 50).doubtAt(50) {
			t.Errorf("another round is to come: %v, in doubt: %v", l.doubts.open, l.at(7, 50).doubtAt(50))
		}
		*source = append(*source, []mappings.Event{*mappedAt(60, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 70, Time: 80}}) // it has ended in between
		if l.update(0); !l.at(7, 75).doubtAt(75) || !l.at(7, 75).over {
			t.Errorf("a thread of the kernel has its number: %+v", l.at(7, 75))
		}
	})
}

// TestDoubtUnreadable: a process of which /proc tells nothing for now is compared later.
func TestDoubtUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, file := range []string{"proc/7/stat", "proc/7/maps"} {
			root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
			source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 30, Time: 40}}}
			l := newLives(fstest.MapFS{}, source)
			l.root = &listings{MapFS: root, fails: map[string]error{file: unix.EMFILE}}
			if l.update(0); !l.at(7, 50).doubtAt(50) {
				t.Errorf("%s can not be read: there is no doubt", file)
			}
			l.root = root
			time.Sleep(time.Second)
			if l.update(0); l.at(7, 50).doubtAt(50) {
				t.Errorf("%s could not be read: the doubt stays", file)
			}
		}
	})
}

// TestDoubtPart: of a program that was executed unseen, it may be seen what it mapped. A process that executes the first program again
// then maps what it did before, and has not gone on with it.
func TestDoubtPart(t *testing.T) {
	vdsoAt := func(time, page uint64) mappings.Event { return *mappedAt(time, page, vdso) }
	root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n00900000-00901000 r-xp 00000000 00:00 0 [vdso]\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), vdsoAt(12, 0x700),
		{Kind: mappings.Lost, Since: 20, Time: 60}, *mappedAt(30, 1, "/bin/other"), vdsoAt(31, 0x800), *mappedAt(50, 1, "/bin/sh"), vdsoAt(51, 0x900)}}
	l := newLives(fstest.MapFS{}, source)
	l.root = root
	l.update(0)
	for time, path := range map[uint64]string{15: "/bin/sh", math.MaxUint64: "/bin/sh", 40: "", 51: ""} {
		n, want := l.at(7, time), path != ""
		m, _ := n.find(0x1008, time)
		if n.doubtAt(time) == want || want && (m == nil || m.file.path != path) {
			t.Errorf("at %d: in doubt %v, it maps %+v", time, n.doubtAt(time), m)
		}
	}
	again := vdsoAt(70, 0x900) // as when its protection changes
	before := l.count
	if l.apply(&again); l.count != before {
		t.Error("the vDSO where it is counts as another program")
	}
}

// TestDoubtThread: a process that goes on without its main thread has its maps by another one.
func TestDoubtThread(t *testing.T) {
	ended := []byte("7 (sh) Z 0 0 0 0 0 4" + strings.Repeat(" 0", 25)) // with PF_EXITING
	root := fstest.MapFS{"proc/7/maps": {}, "proc/7/task/7/stat": {Data: ended}, "proc/7/stat": {Data: ended},
		"proc/7/task/9/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/task/9/stat": {Data: []byte(stat("sh", 1, 2))}}
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Forked, PID: 7, TID: 9, Parent: 7, Time: 12, ParentShare: true},
		{Kind: mappings.Lost, Since: 30, Time: 40}}} // in which the main thread has ended
	l := newLives(fstest.MapFS{}, source)
	l.root = root
	few := &listings{MapFS: root, fails: map[string]error{"proc/7/task/9/stat": unix.EMFILE}}
	l.root = few
	if l.update(0); !l.at(7, 50).doubtAt(50) || !l.doubts.open {
		t.Errorf("the thread could not be read: %+v, another round is to come: %v", l.at(7, 50), l.doubts.open)
	}
	l.root = root
	l.doubts.next = time.Time{}
	if l.update(0); l.at(7, 50).doubtAt(50) || l.at(7, 50).over || !l.at(7, 50).mainEnded {
		t.Errorf("%+v", l.at(7, 50))
	}
}

// TestDoubtRefused: when a process is compared that has mapped what there was no room for, it is known again what it maps.
func TestDoubtRefused(t *testing.T) {
	root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh")}}
	l := newLives(fstest.MapFS{}, source)
	l.root = root
	l.update(0)
	l.at(7, 11).refused = refused{0, 1 << 20, 12, 15}
	known := func(time uint64) bool { m, _ := l.at(7, time).find(0x1008, time); return m != nil }
	if !known(11) || known(20) {
		t.Errorf("before: known %v, after: %v", known(11), known(20))
	}
	*source = append(*source, []mappings.Event{{Kind: mappings.Lost, Since: 30, Time: 40}})
	l.update(0)
	if known(20) || !known(math.MaxUint64) || l.at(7, 50).doubtAt(50) {
		t.Errorf("compared: %+v, %+v", l.at(7, 20), l.at(7, math.MaxUint64))
	}
}

// TestDoubtUnwound: of a process in doubt no callers are found by what it mapped before, and the stack says so.
func TestDoubtUnwound(t *testing.T) {
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 30, Time: 40}}}
	s := Following(fstest.MapFS{}, NumberedOurs, source, true)
	data := make([]byte, 21*8+16*bpf.MaxUserReturns+64)
	binary.LittleEndian.PutUint64(data[amd64PC*8:], 0x1008)
	stack, _ := NewUnwinder(s, "amd64").Unwind(&bpf.Event{PID: 7, TID: 7, Time: 50}, bpf.Section{Kind: bpf.SectionUserCopy, Data: data})
	var words []bpf.UserFrame
	for b := stack.Data; len(b) > 0; b = b[8:] {
		words = append(words, bpf.UserFrame(binary.LittleEndian.Uint64(b)))
	}
	if want := []bpf.UserFrame{bpf.NewUserFrame(0x1008, 0, true), bpf.UserStackEnd(uint8(unwind.EndUnknown))}; !slices.Equal(words, want) {
		t.Errorf("%#x, want %#x", words, want)
	}
}

// TestDoubtCount: how many were lost is told later, which is no reason for another doubt.
func TestDoubtCount(t *testing.T) {
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, {Kind: mappings.Lost, Count: 3, Time: 40}}}
	l := newLives(fstest.MapFS{}, source)
	if l.update(0); l.at(7, 50).doubtful != 0 || l.doubts.open || l.lost != 3 {
		t.Errorf("%+v; %d lost", l.at(7, 50), l.lost)
	}
}

// TestDoubtUnlisted: where /proc cannot be listed for now, lives are compared later.
func TestDoubtUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 131 /bin/sh\n")}, "proc/7/stat": {Data: []byte(stat("sh", 1, 2))}}
		source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/sh"), {Kind: mappings.Lost, Since: 30, Time: 40}}}
		l := newLives(fstest.MapFS{}, source)
		l.root = &listings{MapFS: root, fails: map[string]error{"proc": unix.EMFILE}}
		if l.update(0); !l.at(7, 50).doubtAt(50) || l.at(7, 50).over {
			t.Error("nothing was listed, and there is no doubt")
		}
		l.root = root
		time.Sleep(time.Second)
		if l.update(0); l.at(7, 50).doubtAt(50) {
			t.Error("the doubt stays")
		}
	})
}
