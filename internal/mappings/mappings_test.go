// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// record makes a record as the kernel does.
func record(kind uint32, misc uint16, body []byte) []byte { return recordAt(99, kind, misc, body) }

func recordAt(time uint64, kind uint32, misc uint16, body []byte) []byte {
	le := binary.LittleEndian
	raw := le.AppendUint32(nil, kind)
	raw = le.AppendUint16(raw, misc)
	raw = le.AppendUint16(raw, uint16(headerSize+len(body)+trailerSize))
	raw = append(raw, body...)
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(raw, 7), 8), time)
}

func mapping(id []byte, path string) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32(nil, 7), 8)
	for _, v := range []uint64{0x1000, 0x2000, 0x3000} {
		b = le.AppendUint64(b, v)
	}
	b = append(append(b, id...), make([]byte, 24-len(id)+8)...)
	b = append(b, path...)
	return append(b, make([]byte, 8-len(path)%8)...)
}

func TestDecode(t *testing.T) {
	le := binary.LittleEndian
	inode := le.AppendUint64(le.AppendUint32(le.AppendUint32(nil, 8), 1), 12)
	fork := le.AppendUint64(le.AppendUint32(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 20), 7), 20), 8), 99)
	for _, test := range []struct {
		name string
		raw  []byte
		want Event
		ok   bool
	}{
		{"by inode", record(unix.PERF_RECORD_MMAP2, 0, mapping(inode, "/bin/a b")),
			Event{PID: 7, TID: 8, Time: 99, Start: 0x1000, End: 0x3000, Offset: 0x3000, Path: "/bin/a b", Device: "08:01", Inode: 12}, true},
		{"by build ID", record(unix.PERF_RECORD_MMAP2, miscBuildID, mapping([]byte{3, 0, 0, 0, 'x', 'y', 'z'}, "[vdso]")),
			Event{PID: 7, TID: 8, Time: 99, Start: 0x1000, End: 0x3000, Offset: 0x3000, Path: "[vdso]", BuildID: "xyz"}, true},
		{"exec", record(unix.PERF_RECORD_COMM, miscCommExec, make([]byte, 24)), Event{Kind: Execed, PID: 7, TID: 8, Time: 99}, true},
		{"another name", record(unix.PERF_RECORD_COMM, 0, make([]byte, 24)), Event{}, false},
		{"fork", record(unix.PERF_RECORD_FORK, 0, fork), Event{Kind: Forked, PID: 20, TID: 20, Parent: 7, Time: 99}, true},
		{"exit", record(unix.PERF_RECORD_EXIT, 0, fork), Event{Kind: Ended, PID: 20, TID: 20, Parent: 7, Time: 99}, true},
		{"lost", record(unix.PERF_RECORD_LOST, 0, le.AppendUint64(make([]byte, 8), 5)), Event{Kind: Lost, PID: 7, TID: 8, Time: 99, Count: 5}, true},
		{"cut", record(unix.PERF_RECORD_MMAP2, 0, make([]byte, 20)), Event{}, false},
		{"nothing", nil, Event{}, false},
	} {
		got, ok := decode(test.raw)
		if ok != test.ok || ok && !cmp.Equal(got, test.want) {
			t.Errorf("%s: %v %s", test.name, ok, cmp.Diff(test.want, got))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(record(unix.PERF_RECORD_MMAP2, miscBuildID, mapping([]byte{200}, "/bin/a")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if e, ok := decode(raw); ok && len(e.BuildID) > mostBuildID {
			t.Errorf("a build ID of %d bytes", len(e.BuildID))
		}
	})
}

// TestOrder: the buffers of CPUs are read one after another. A child's exec is in the second one, and its fork, which
// happened earlier, is written to the first when that was read already.
func TestOrder(t *testing.T) {
	first, second := &busyRing{ring: memoryRing()}, &busyRing{ring: memoryRing()}
	w := Watcher{cpus: []*followed{{buffer: first}, nil, {buffer: second}}}
	fork := func(r *busyRing, time uint64) { r.write(recordAt(time, unix.PERF_RECORD_FORK, 0, make([]byte, 24))) }
	take := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for _, e := range w.Take(nil, 0) {
			got = append(got, e.Time)
		}
		if !slices.Equal(got, want) {
			t.Errorf("taken: %d, want %d", got, want)
		}
	}
	fork(first, 30)
	fork(second, 20)
	take(20, 30)
	first.happens = []func(){func() {
		fork(first, 60)
		second.write(recordAt(70, unix.PERF_RECORD_COMM, miscCommExec, make([]byte, 24)))
	}, func() { // while the second reading goes on
		fork(first, 80)
		fork(second, 90)
	}}
	fork(second, 45)
	take(45, 60, 70)
	take(80, 90)
	fork(second, 100)
	w.read() // as from time to time, if nobody asks
	fork(first, 110)
	take(100, 110)
	first.reads = 0
	take()
	if first.reads != 1 {
		t.Errorf("empty buffers were read %d times, want 1", first.reads)
	}
}

// A busyRing is one behind which something happens before the next ring is read.
type busyRing struct {
	*ring
	reads   int
	happens []func() // after the next readings
}

func (r *busyRing) read(dst []Event) []Event {
	r.reads++
	dst = r.ring.read(dst)
	if len(r.happens) > 0 {
		r.happens[0]()
		r.happens = r.happens[1:]
	}
	return dst
}

// memoryRing is a ring that no kernel writes.
func memoryRing() *ring {
	mem := make([]byte, os.Getpagesize()+ringSize)
	return &ring{mem: mem, data: mem[os.Getpagesize():]}
}

// TestLost: something may be lost as soon as there is no room for another record. How many the kernel had no room for it tells later.
func TestLost(t *testing.T) {
	r := memoryRing()
	fork := func(time uint64) []byte { return recordAt(time, unix.PERF_RECORD_FORK, 0, make([]byte, 24)) }
	lost := func() (found []Event) {
		for _, e := range r.read(nil) {
			if e.Kind == Lost {
				found = append(found, e)
			}
		}
		return found
	}
	r.write(fork(10))
	r.write(fork(20))
	r.write(recordAt(35, unix.PERF_RECORD_LOST, 0, binary.LittleEndian.AppendUint64(make([]byte, 8), 5)))
	r.write(fork(40))
	if got := lost(); len(got) != 1 || got[0].Since != 0 || got[0].Time != 35 || got[0].Count != 5 {
		t.Errorf("told: %+v", got)
	}
	size := len(fork(1))
	for n := 0; (n+1)*size <= len(r.data)-mostRecord; n++ {
		r.write(fork(uint64(100 + n)))
	}
	if got := lost(); got != nil {
		t.Errorf("there is room: %+v", got)
	}
	last := uint64(0)
	for n := 0; n*size <= len(r.data)-mostRecord; n++ {
		last = uint64(100_000 + n)
		r.write(fork(last))
	}
	before := Now()
	last = 100_000 + uint64(len(r.data)-mostRecord)/uint64(size) - 1 // the last behind which there is room for any
	if got := lost(); len(got) != 1 || got[0].Since != last || got[0].Time < before || got[0].Count != 0 {
		t.Errorf("there may be no room: %+v, the last is of %d", got, last)
	}
	r.write(recordAt(200_000, unix.PERF_RECORD_LOST, 0, binary.LittleEndian.AppendUint64(make([]byte, 8), 7)))
	for n := 0; n*size <= len(r.data)-mostRecord; n++ {
		r.write(fork(uint64(200_000 + n)))
	}
	if got := lost(); len(got) != 2 || got[0].Count != 7 || got[1].Since < 200_000+uint64(len(r.data)-mostRecord)/uint64(size)-4 {
		t.Errorf("there may be no room again: %+v", got)
	}
}

func (r *ring) write(raw []byte) {
	head := binary.NativeEndian.Uint64(r.mem[offHead:])
	for i, b := range raw {
		r.data[(head+uint64(i))%uint64(len(r.data))] = b
	}
	binary.NativeEndian.PutUint64(r.mem[offHead:], head+uint64(len(raw)))
}

// TestWatcher follows a program that ends at once.
func TestWatcher(t *testing.T) {
	w, err := Open()
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	command := exec.Command("/bin/true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(command.Process.Pid)
	var kinds []Kind
	var paths []string
	for _, e := range w.Take(nil, 0) {
		if e.PID != pid || e.TID != pid {
			continue
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == Mapped {
			paths = append(paths, e.Path)
			if strings.HasPrefix(e.Path, "/") && e.BuildID == "" && e.Inode == 0 {
				t.Errorf("nothing identifies %s", e.Path)
			}
		}
	}
	if len(kinds) < 4 || kinds[0] != Forked || kinds[1] != Execed || kinds[len(kinds)-1] != Ended {
		t.Errorf("%v", kinds)
	}
	if !slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(p, "/libc.") }) {
		t.Errorf("mapped %q of %d", paths, os.Getpid())
	}
}

func TestParseList(t *testing.T) {
	if got, err := parseList("0-2,7\n"); err != nil || !slices.Equal(got, []int{0, 1, 2, 7}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseList("0-x"); err == nil {
		t.Error("no error")
	}
}

// A closedRing is one that can be closed.
type closedRing struct{ *ring }

func (closedRing) close() error { return nil }

// TestSwitched: messages are as kobject_uevent_env of lib/kobject_uevent.c writes them.
func TestSwitched(t *testing.T) {
	for message, want := range map[string]switched{
		"online@/devices/system/cpu/cpu1\x00ACTION=online\x00DEVPATH=/devices/system/cpu/cpu1\x00SUBSYSTEM=cpu\x00SEQNUM=7\x00": {1, true},
		"online@/devices/system/cpu/cpu12\x00ACTION=online\x00":                                                                 {12, true},
		"offline@/devices/system/cpu/cpu1\x00ACTION=offline\x00":                                                                {1, false},
		"online@/devices/system/memory/memory1\x00":                                                                             {-1, false},
		"add@/devices/system/cpu/cpu1\x00":                                                                                      {-1, false},
		"online@/devices/system/cpu/cpux\x00":                                                                                   {-1, false},
		"online@/devices/system/cpu/cpu-1\x00":                                                                                  {-1, false},
		"online@/devices/system/cpu/cpu65536\x00":                                                                               {-1, false},
		"": {-1, false},
	} {
		got, ok := parseSwitched([]byte(message))
		if ok != (want.number >= 0) || ok && got != want {
			t.Errorf("%q: %+v, %v", message, got, ok)
		}
	}
}

// TestDropped: what is not kept is lost since the first of it.
func TestDropped(t *testing.T) {
	for _, c := range []struct {
		events      []Event
		since, time uint64
	}{
		{[]Event{{Time: 30}, {Time: 20}, {Time: 50}}, 20, 50},
		{[]Event{{Time: 30}, {Kind: Lost, Since: 10, Time: 40}}, 10, 40},
		{[]Event{{Kind: Lost, Since: 0, Time: 40}, {Time: 50}}, 40, 50}, // which was told before
	} {
		if got := dropped(c.events); got.Since != c.since || got.Time != c.time || got.Count != uint64(len(c.events)) || got.Kind != Lost {
			t.Errorf("%+v: %+v", c.events, got)
		}
	}
}
