// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// told is what happened, each time it is asked.
type told [][]mappings.Event

func (s *told) Take(dst []mappings.Event, _ uint64) []mappings.Event {
	if len(*s) == 0 {
		return dst
	}
	dst = append(dst, (*s)[0]...)
	*s = (*s)[1:]
	return dst
}

// TestFollowed: addresses are named by what was mapped at the time of the event, although the process
// has ended, executed another program, or maps something else there.
func TestFollowed(t *testing.T) {
	program := build(t, "-static")
	img, err := readImage(strings.NewReader(string(program)))
	if err != nil {
		t.Fatal(err)
	}
	var one, two function
	for _, f := range img.funcs {
		switch f.name {
		case "one":
			one = f
		case "two":
			two = f
		}
	}
	offset := func(f function) uint64 {
		for _, p := range img.loads {
			if f.addr >= p.Vaddr && f.addr-p.Vaddr < p.Filesz {
				return f.addr - p.Vaddr + p.Off
			}
		}
		t.Fatal("no segment")
		return 0
	}
	mapped := func(pid uint32, time, offset uint64) mappings.Event {
		return mappings.Event{Kind: mappings.Mapped, PID: pid, TID: pid, Time: time, Start: 0x5000, End: 0x6000, Offset: offset, Path: "/bin/prog", BuildID: img.buildID}
	}
	if img.buildID == "" {
		t.Skip("the compiler makes no build IDs")
	}
	root := fstest.MapFS{"proc/self/ns/pid": {Mode: fs.ModeSymlink, Data: []byte(initialNamespace)}, "bin/prog": {Data: program}, "bin/other": {Data: []byte("\x7fELF")}}
	source := &told{{
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 100}, mapped(7, 110, offset(one)),
		{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 120}, mapped(7, 130, offset(two)),
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 140}, {Kind: mappings.Ended, PID: 8, TID: 8, Time: 150},
		{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 160, Start: 0x5000, End: 0x6000, Path: "/bin/other", BuildID: "x"},
	}}
	s := Following(root, NumberedOurs, source, true)
	recorder, recorded := s.NewRecorder(), NewRecorded()
	for _, test := range []struct {
		pid  uint32
		time uint64
		want string
	}{
		{7, 115, "one+0x0 (/bin/prog)"},
		{7, 135, "two+0x0 (/bin/prog)"},
		{8, 135, "one+0x0 (/bin/prog)"},
		{8, 200, "one+0x0 (/bin/prog)"},
		{7, 170, "0x5000 (/bin/other)"},
		{7, 0, "0x5000 (/bin/other)"}, // of a table: the newest
	} {
		e := bpf.Event{PID: test.pid, TID: test.pid, Time: test.time}
		if got := string(s.Of(&e, "prog").AppendFrame(nil, 0x5000, false)); got != test.want {
			t.Errorf("%d at %d: %s, want %s", test.pid, test.time, got, test.want)
		}
		lines := recorder.Append(nil, &e, []bpf.UserFrame{bpf.NewUserFrame(0x5000, 0, true)})
		if err := recorded.Add(lines); err != nil {
			t.Fatal(err)
		}
		if test.want[0] != '0' && test.time == 115 && !strings.Contains(string(lines), fmt.Sprintf(`"BuildID":"%x"`, img.buildID)) {
			t.Errorf("no build ID in %s", lines)
		}
	}
	for _, test := range []struct {
		pid  uint32
		time uint64
		want string
	}{{7, 115, "one+0x0 (/bin/prog)"}, {7, 135, "two+0x0 (/bin/prog)"}, {8, 135, "one+0x0 (/bin/prog)"}, {7, 170, "0x5000 (/bin/other)"}, {9, 170, "0x5000"}, {7, 50, "0x5000"}} {
		e := bpf.Event{PID: test.pid, Time: test.time}
		p := recorded.Of(&e)
		if got := string(p.AppendFrame(nil, 0x5000, false)); got != test.want {
			t.Errorf("recorded, %d at %d: %s, want %s", test.pid, test.time, got, test.want)
		}
		if missing := p.Missing(); (missing != "") != (test.pid == 9) {
			t.Errorf("recorded, %d: %q", test.pid, missing)
		}
	}
}

// TestFollowingEnded names the frames of a program that has ended.
func TestFollowingEnded(t *testing.T) {
	w, err := mappings.Open()
	if err != nil {
		t.Skip(err)
	}
	defer w.Close()
	s := Following(os.DirFS("/"), NumberedOurs, w, false)
	out, err := exec.Command("sh", "-c", "cat /proc/self/maps; cat /proc/uptime").Output()
	if err != nil {
		t.Skip(err)
	}
	maps, _, _ := strings.Cut(string(out), "\n[")
	e := bpf.Event{Time: 1 << 63}
	s.lives.update(0)
	for pid, own := range s.lives.of {
		for _, l := range own {
			for i := range l.maps {
				m := &l.maps[i]
				if strings.HasSuffix(m.file.path, "/cat") && l.from > 0 {
					e.PID = pid
					if !strings.Contains(maps, fmt.Sprintf("%08x-", m.start)) && !strings.Contains(maps, fmt.Sprintf("%x-", m.start)) {
						continue
					}
					if got := string(s.Of(&e, "cat").AppendFrame(nil, m.start, false)); !strings.HasSuffix(got, "("+m.file.path+")") {
						t.Errorf("%s is not in %s", got, m.file.path)
					}
					return
				}
			}
		}
	}
	t.Error("cat was not seen")
}

// TestRecordedParts: the limits of a Recorder are those of one part of a run, and a run may have
// any number. What is too much has no names.
func TestRecordedParts(t *testing.T) {
	mapped := func(number, pid int, start uint64) line {
		return line{Mapping: number, PID: uint32(pid), Start: start, End: start + 0x1000, Path: "/bin/p"}
	}
	block := func(lines ...line) (text []byte) {
		for i := range lines {
			one, err := json.Marshal(&lines[i])
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, one...), '\n')
		}
		return text
	}
	add := func(r *Recorded, part []byte) {
		t.Helper()
		if err := r.Add(part); err != nil {
			t.Fatal(err)
		}
	}
	named := func(r *Recorded, pid int, addr uint64) string {
		return string(r.Of(&bpf.Event{PID: uint32(pid), Time: 1}).AppendFrame(nil, addr, false))
	}

	t.Run("repeated", func(t *testing.T) {
		r := NewRecorded()
		const frames = 20
		lines := []line{mapped(0, 7, 0x1000)}
		for at := range frames {
			lines = append(lines, line{At: uint64(at), Exact: true, Func: strings.Repeat("f", mostLine-100)})
		}
		part := block(lines...)
		for range 2 * mostRecordedText / len(part) {
			add(r, part)
		}
		add(r, block(mapped(5, 8, 0x1000), line{Mapping: 5, Exact: true, Func: "last"}))
		if got := named(r, 8, 0x1000); got != "last+0x0 (/bin/p)" || r.lines != 1+frames+2+2 { // with two lives
			t.Errorf("%s, %d lines", got, r.lines)
		}
	})
	t.Run("text", func(t *testing.T) {
		r := NewRecorded()
		const parts = 3
		for n := range parts {
			lines := []line{mapped(0, 7, uint64(n+1)*0x1000)}
			for at := range mostRecordedText / 2 / mostLine {
				lines = append(lines, line{At: uint64(at), Exact: true, Func: strings.Repeat("f", mostLine-100)})
			}
			add(r, block(lines...))
		}
		for n, want := range []bool{true, true, false} {
			if got := named(r, 7, uint64(n+1)*0x1000+500); strings.HasPrefix(got, "fff") != want {
				t.Errorf("part %d: %.40s", n, got)
			}
		}
		if r.text > mostRecordedText {
			t.Errorf("%d bytes", r.text)
		}
	})
	t.Run("short frames", func(t *testing.T) {
		r := NewRecorded()
		add(r, block(mapped(0, 7, 0x1000)))
		const frames = 20_000
		source := "[" + strings.Repeat("{},", frames-1) + "{}]"
		add(r, fmt.Appendf(nil, `{"m":0,"PID":9,"Start":1,"End":2,"Source":%s}`, source))
		for at := range mostRecordedText/(frames*50) + 1 {
			add(r, fmt.Appendf(nil, `{"m":0,"At":%d,"Exact":true,"Func":"f","Source":%s}`, at, source))
		}
		if kept := len(r.frames) * frames * int(unsafe.Sizeof(debuginfo.Frame{})); kept == 0 || kept > mostRecordedText {
			t.Errorf("%d lines with %d bytes of frames", len(r.frames), kept)
		}
		if m := r.mappings[len(r.mappings)-1]; m.PID != 9 || m.Source != nil {
			t.Errorf("process %d has a mapping with %d frames", m.PID, len(m.Source))
		}
	})
	t.Run("mappings", func(t *testing.T) {
		r := NewRecorded()
		for n := range 2 {
			var lines []line
			for i := range mostMapped - 1 {
				lines = append(lines, mapped(i, 7, uint64(n*mostMapped+i+1)<<12), line{Mapping: i, Exact: true, Func: fmt.Sprintf("f%d", n)})
			}
			add(r, block(lines...))
		}
		add(r, block(mapped(0, 8, 0x1000), line{Exact: true, Func: "g"}))
		for _, c := range []struct {
			pid  int
			page uint64
			want string
		}{{7, 2, "f0+0x0 (/bin/p)"}, {7, mostMapped + 1, "f1+0x0 (/bin/p)"}, {7, mostMapped + 9, "0x4009000"}, {8, 1, "g+0x0 (/bin/p)"}} {
			if got := named(r, c.pid, c.page<<12); got != c.want {
				t.Errorf("%d, page %d: %s, want %s", c.pid, c.page, got, c.want)
			}
		}
	})
	t.Run("numbers", func(t *testing.T) {
		r := NewRecorded()
		add(r, block(mapped(-1, 7, 0x1000), mapped(mostRecorded, 7, 0x1000)))
		if len(r.number) != 0 {
			t.Errorf("%v", r.number)
		}
	})
}

// TestRecorderLimits: a Recorder at its limits remembers nothing more, and a mapping that is not in
// the recording has no functions there.
func TestRecorderLimits(t *testing.T) {
	root := fstest.MapFS{"tmp/perf-7.map": {Data: []byte("5000 2000 f\n")}}
	s := Following(root, NumberedOurs, &told{{
		{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Start: 0x5000, End: 0x6000, Path: "//" + strings.Repeat("x", 2000)},
		{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Start: 0x6000, End: 0x7000, Path: "//anon"},
	}}, true)
	e := bpf.Event{PID: 7, TID: 7, Time: 9}
	stack := []bpf.UserFrame{bpf.NewUserFrame(0x5000, 0, true), bpf.NewUserFrame(0x6000, 0, true)}

	r := s.NewRecorder()
	r.size = mostRecordedText/2 - 1000
	lines := r.Append(nil, &e, stack)
	recorded := NewRecorded()
	if err := recorded.Add(lines); err != nil {
		t.Fatal(err)
	}
	if len(r.mapped) != 1 || len(r.framed) != 1 || strings.Count(string(lines), "\n") != 4 { // with the life, and what was refused
		t.Errorf("%d mappings, %d frames, lines %s", len(r.mapped), len(r.framed), lines)
	}
	for addr, want := range map[uint64]string{0x5000: "0x5000", 0x6000: "f+0x1000 (/tmp/perf-7.map)"} {
		if got := string(recorded.Of(&e).AppendFrame(nil, addr, false)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}

	r = s.NewRecorder()
	for n := range mostRecorded/2 - 1 { // room for one more
		r.framed[recordedFrame{mapping: -1, at: uint64(n)}] = struct{}{}
	}
	lines = r.Append(nil, &e, stack)
	if len(r.mapped) != 1 || len(r.framed) != mostRecorded/2-1 || strings.Count(string(lines), "\n") != 3 { // and what was refused
		t.Errorf("%d mappings, %d frames, lines %s", len(r.mapped), len(r.framed), lines)
	}
}

// TestRecordedUnmapped: a process of which nothing mapped was seen has what /proc says, or nothing if it began with an exec, and not
// what the process before it had.
func TestRecordedUnmapped(t *testing.T) {
	root := fstest.MapFS{"proc/7/maps": {Data: []byte("00001000-00002000 r-xp 00000000 fe:01 132 /bin/now\n")}, "proc/7/task/7/stat": {Data: []byte(stat("a", 1, 2))}}
	source := &told{{
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 10}, *mappedAt(11, 1, "/bin/before"),
		{Kind: mappings.Execed, PID: 7, TID: 7, Time: 20},
		{Kind: mappings.Ended, PID: 7, TID: 7, Time: 30},
		{Kind: mappings.Forked, PID: 7, TID: 7, Parent: 6, Time: 40},
	}}
	s := Following(fstest.MapFS{}, NumberedOurs, source, false)
	s.root = root
	recorder, recorded := s.NewRecorder(), NewRecorded()
	for time, want := range map[uint64]string{15: "0x1008 (/bin/before)", 25: "0x1008", 45: "0x1008 (/bin/now)"} {
		e := &bpf.Event{PID: 7, TID: 7, Time: time, Comm: [16]byte{'a'}}
		if got := string(s.Of(e, "a").AppendFrame(nil, 0x1008, false)); got != want {
			t.Errorf("at %d: %s, want %s", time, got, want)
		}
		if err := recorded.Add(recorder.Append(nil, e, []bpf.UserFrame{bpf.NewUserFrame(0x1008, 0, true)})); err != nil {
			t.Fatal(err)
		}
	}
	for time, want := range map[uint64]string{15: "0x1008 (/bin/before)", 25: "0x1008", 45: "0x1008 (/bin/now)"} {
		if got := string(recorded.Of(&bpf.Event{PID: 7, Time: time}).AppendFrame(nil, 0x1008, false)); got != want {
			t.Errorf("recorded, at %d: %s, want %s", time, got, want)
		}
	}
}

// TestRecordedLives: an address has the names of the program of its time, and none of the one before, whatever that had mapped; and none
// from when on there was no room.
func TestRecordedLives(t *testing.T) {
	r, replay := newSymbols(fstest.MapFS{}).NewRecorder(), NewRecorded()
	add := func(block []byte) {
		t.Helper()
		if err := replay.Add(block); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(time uint64, want, why string) {
		t.Helper()
		p := replay.Of(&bpf.Event{PID: 7, Time: time})
		if got := string(p.AppendFrame(nil, 0x1000, false)); got != want || p.Missing() != why {
			t.Errorf("at %d: %s, %q; want %s, %q", time, got, p.Missing(), want, why)
		}
	}
	const doubt = "process 7 may have executed another program, which was not seen"
	add(r.appendLife(nil, moment{7, 10}, 0, refused{}))
	add([]byte(`{"m":0,"PID":7,"Life":10,"Since":10,"Start":4096,"End":8192,"Path":"/bin/a"}` + "\n"))
	add(r.appendLife(nil, moment{7, 100}, 0, refused{})) // it has no mapping there
	shows(50, "0x1000 (/bin/a)", "")
	shows(100, "0x1000", "")
	add(r.appendLife(nil, moment{7, 10}, 40, refused{}))
	shows(39, "0x1000 (/bin/a)", "")
	shows(40, "0x1000", doubt)
	shows(100, "0x1000", "")
	if again := r.appendLife(nil, moment{7, 10}, 40, refused{}); again != nil {
		t.Errorf("said again: %s", again)
	}
	often := moment{8, 10}
	last := ""
	for n := range uint64(10 * mostOfLife) { // it is in doubt again and again
		if block := r.appendLife(nil, often, 20+n, refused{}); block != nil {
			last = string(block)
		}
		add(r.appendLife(nil, often, 0, refused{}))
	}
	if n := r.lives[often].lines; n > mostOfLife+1 || !strings.Contains(last, "Unnamed") {
		t.Errorf("%d lines of one life, the last is %s", n, last)
	}
	if earlier := r.appendLife(nil, often, 15, refused{}); earlier == nil {
		t.Error("it is not said that a life was in doubt before")
	}
	part := (&Symbols{}).NewRecorder() // the next part of the run begins anew
	add(part.appendLife(nil, moment{7, 10}, 0, refused{}))
	shows(40, "0x1000 (/bin/a)", "")
	part.changes = mostChanges - 1
	add(part.appendLife(nil, moment{7, 10}, 60, refused{}))
	shows(59, "0x1000 (/bin/a)", "")
	shows(60, "0x1000", noRoom)
	shows(100, "0x1000", noRoom)
	if more := part.appendLife(nil, moment{8, 10}, 60, refused{}); more != nil {
		t.Errorf("said when there is no room: %s", more)
	}

	full := NewRecorded()
	full.lines = mostRecorded
	if err := full.Add(r.appendLife(nil, moment{9, 30}, 0, refused{})); err != nil {
		t.Fatal(err)
	}
	if why := full.Of(&bpf.Event{PID: 9, Time: 30}).Missing(); why == "" || full.Of(&bpf.Event{PID: 9, Time: 29}).Missing() == why {
		t.Errorf("a full one: %q", why)
	}
}

// TestRecordedRefused: what there was no room for hides, live and in a replay, what was at its place before: where the process maps too
// much, where the recording is full, and where the replay is.
func TestRecordedRefused(t *testing.T) {
	const now = mostMapped + 30
	source := &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 1}, *mappedAt(2, 5, "/old"), *mappedAt(3, 6, "/old")}, {}}
	s := Following(fstest.MapFS{}, NumberedOurs, source, false)
	recorder, replay := s.NewRecorder(), NewRecorded()
	record := func(r *Recorder, to *Recorded, time uint64, pages ...uint64) {
		t.Helper()
		var stack []bpf.UserFrame
		for _, page := range pages {
			stack = append(stack, bpf.NewUserFrame(page<<12, 0, true))
		}
		if err := to.Add(r.Append(nil, &bpf.Event{PID: 7, TID: 7, Time: time}, stack)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(from *Recorded, time, page uint64, want string) {
		t.Helper()
		if got := string(from.Of(&bpf.Event{PID: 7, Time: time}).AppendFrame(nil, page<<12, false)); got != want {
			t.Errorf("page %d at %d: %s, want %s", page, time, got, want)
		}
	}
	record(recorder, replay, 4, 5, 6)
	shows(replay, 4, 5, "0x5000 (/old)")

	full := s.NewRecorder()
	toFull := NewRecorded()
	record(full, toFull, 4, 5)
	full.size = mostRecordedText / 2
	record(full, toFull, 5, 6)
	shows(toFull, 5, 5, "0x5000 (/old)")
	shows(toFull, 5, 6, "0x6000")
	if again := full.Append(nil, &bpf.Event{PID: 7, TID: 7, Time: 6}, []bpf.UserFrame{bpf.NewUserFrame(0x6000, 0, true)}); len(again) > 0 {
		t.Errorf("said again: %s", again)
	}

	var more []mappings.Event
	for n := range uint64(mostMapped - 2) {
		more = append(more, *mappedAt(10+n, 10, "/jit"))
		more[n].Start += n % 4096 // each is another mapping
	}
	*source = told{append(more, *mappedAt(now, 5, "/new"))}
	record(recorder, replay, now+1, 5, 6)
	live := s.Of(&bpf.Event{PID: 7, TID: 7, Time: now + 1}, "")
	for page, want := range map[uint64]string{5: "0x5000", 6: "0x6000 (/old)"} {
		if got := string(live.AppendFrame(nil, page<<12, false)); got != want {
			t.Errorf("live: %s, want %s", got, want)
		}
		shows(replay, now+1, page, want)
	}
	shows(replay, now-1, 5, "0x5000 (/old)")
	record(s.NewRecorder(), replay, now+1, 5) // the next part of the run begins anew
	shows(replay, now+1, 5, "0x5000")

	replay.lines = mostRecorded
	if err := replay.Add([]byte(`{"m":9,"PID":7,"Life":1,"Since":40000,"Start":24576,"End":28672,"Path":"/newer"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	shows(replay, 39999, 6, "0x6000 (/old)")
	shows(replay, 40000, 6, "0x6000")
	if err := replay.Add(recorder.appendLife(nil, moment{7, 1}, 60000, refused{})); err != nil {
		t.Fatal(err)
	}
	shows(replay, 40000, 6, "0x6000") // after another line of that life, too
	for n := range uint64(2 * mostOfLife) {
		if err := replay.Add(recorder.appendLife(nil, moment{7, 1}, 0, refused{0x9000, 0xa000, now + n, now + n})); err != nil {
			t.Fatal(err)
		}
	}
	if n := recorder.lives[moment{7, 1}].lines; n > mostOfLife+1 {
		t.Errorf("%d lines of one life", n)
	}
	shows(replay, 50000, 10, "0xa000")
}

// TestRecordedPartlyRefused: what was refused is told with the first stack of a life, whose mapping it hides in part.
func TestRecordedPartlyRefused(t *testing.T) {
	old := mappedAt(2, 5, "/old")
	old.End += 0x1000
	s := Following(fstest.MapFS{}, NumberedOurs, &told{{{Kind: mappings.Execed, PID: 7, TID: 7, Time: 1}, *old}}, false)
	e := &bpf.Event{PID: 7, TID: 7, Time: 9}
	s.Of(e, "")
	s.lives.at(7, 9).refused = refused{0x5000, 0x6000, 3, 3}
	replay := NewRecorded()
	if err := replay.Add(s.NewRecorder().Append(nil, e, []bpf.UserFrame{bpf.NewUserFrame(0x6000, 0, true), bpf.NewUserFrame(0x5000, 0, true)})); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{0x6000: "0x6000 (/old)", 0x5000: "0x5000"} {
		if got := string(replay.Of(e).AppendFrame(nil, addr, false)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestRecordedWithoutLives: where lines about lives are missing, as in recordings of older versions, and there is no room for what a
// program mapped, it has no names of the one before.
func TestRecordedWithoutLives(t *testing.T) {
	replay := NewRecorded()
	if err := replay.Add([]byte(`{"m":0,"PID":7,"Life":10,"Since":10,"Start":4096,"End":8192,"Path":"/before"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	replay.lines = mostRecorded
	if err := replay.Add([]byte(`{"m":1,"PID":7,"Life":20,"Since":20,"Start":4096,"End":8192,"Path":"/after"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	for time, want := range map[uint64]string{19: "0x1000 (/before)", 20: "0x1000"} {
		if got := string(replay.Of(&bpf.Event{PID: 7, Time: time}).AppendFrame(nil, 0x1000, false)); got != want {
			t.Errorf("at %d: %s, want %s", time, got, want)
		}
	}

	replay = NewRecorded() // where processes are not followed, all of them are as they were at first
	if err := replay.Add([]byte(`{"m":0,"PID":7,"Start":4096,"End":8192,"Path":"/known"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	replay.lines = mostRecorded
	if err := replay.Add([]byte(`{"m":1,"PID":8,"Start":4096,"End":8192,"Path":"/new"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[uint32]string{7: "0x1000 (/known)", 8: "0x1000"} {
		if got := string(replay.Of(&bpf.Event{PID: pid, Time: 9}).AppendFrame(nil, 0x1000, false)); got != want {
			t.Errorf("process %d: %s, want %s", pid, got, want)
		}
	}
}

// TestRecorderFullOnce: of a stack whose mappings all find no room, one line says so.
func TestRecorderFullOnce(t *testing.T) {
	var all []mappings.Event
	var stack []bpf.UserFrame
	for page := range uint64(20) {
		all = append(all, *mappedAt(2, 5+page, "/a"))
		stack = append(stack, bpf.NewUserFrame((5+page)<<12, 0, true))
	}
	s := Following(fstest.MapFS{}, NumberedOurs, &told{all}, false)
	r, e := s.NewRecorder(), &bpf.Event{PID: 7, TID: 7, Time: 9}
	r.size = mostRecordedText / 2
	if lines := string(r.Append(nil, e, stack)); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "Refused") {
		t.Errorf("%s", lines)
	}
}

func FuzzRecorded(f *testing.F) {
	f.Add([]byte(`{"m":0,"PID":7,"Start":1,"End":9,"Path":"/x"}`+"\n"+`{"m":0,"At":3,"Func":"f","Plus":1}`), uint64(3))
	f.Fuzz(func(_ *testing.T, block []byte, addr uint64) {
		r := NewRecorded()
		_ = r.Add(block)
		for pid := range r.lives {
			r.Of(&bpf.Event{PID: pid, Time: addr}).AppendFrame(nil, addr, true)
		}
	})
}
