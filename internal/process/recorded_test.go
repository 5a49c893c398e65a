// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// told is what happened, each time it is asked.
type told [][]mappings.Event

func (s *told) Take(dst []mappings.Event) []mappings.Event {
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
	s.lives.update()
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

func FuzzRecorded(f *testing.F) {
	f.Add([]byte(`{"m":0,"PID":7,"Start":1,"End":9,"Path":"/x"}`+"\n"+`{"m":0,"At":3,"Func":"f","Plus":1}`), uint64(3))
	f.Fuzz(func(_ *testing.T, block []byte, addr uint64) {
		r := NewRecorded()
		_ = r.Add(block)
		for pid := range r.of {
			r.Of(&bpf.Event{PID: pid, Time: addr}).AppendFrame(nil, addr, true)
		}
	})
}
