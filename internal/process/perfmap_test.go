// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestPerfMap names generated code, also what is generated later, of a process in a container.
func TestPerfMap(t *testing.T) {
	root := fstest.MapFS{
		"proc/7/status":               {Data: []byte("Name:\tpy\nNSpid:\t7\t3\n")},
		"proc/7/root/tmp/perf-3.map":  {Data: []byte("5000 10 py::f:/a b.py\nnonsense\n0x5010 0x8 g\n5000 10 py::again:/a.py\n")},
		"tmp/perf-8.map":              {Data: []byte("5000 10 h\n")},
		"proc/7/root/tmp/perf-99.map": {Data: []byte("5000 1000 wrong\n")},
	}
	source := &told{{
		{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Start: 0x5000, End: 0x6000, Path: "//anon"},
		{Kind: mappings.Mapped, PID: 8, TID: 8, Time: 1, Start: 0x5000, End: 0x6000, Path: "//anon"},
	}}
	s := Following(root, NumberedOurs, source, true)
	name := func(pid uint32, addr uint64) string {
		return string(s.Of(&bpf.Event{PID: pid, Time: 9}, "py").AppendFrame(nil, addr, true))
	}
	for _, c := range []struct {
		pid  uint32
		addr uint64
		want string
	}{
		{7, 0x5004, "py::again:/a.py+0x4 (/tmp/perf-3.map)"},
		{7, 0x5011, "g+0x1 (/tmp/perf-3.map)"},
		{7, 0x5100, "0x5100 (//anon)"},
		{8, 0x5004, "h+0x4 (/tmp/perf-8.map)"},
	} {
		if got := name(c.pid, c.addr); got != c.want {
			t.Errorf("%d %#x: %s, want %s", c.pid, c.addr, got, c.want)
		}
	}
	root["proc/7/root/tmp/perf-3.map"] = &fstest.MapFile{Data: []byte("5200 10 later\n")}
	for range 4 { // it is read again when addresses without names have become twice as many
		name(7, 0x5201)
	}
	if got := name(7, 0x5201); got != "later+0x1 (/tmp/perf-3.map)" {
		t.Error(got)
	}
	recorded := NewRecorded()
	e := bpf.Event{PID: 7, Time: 9}
	if err := recorded.Add(s.NewRecorder().Append(nil, &e, []bpf.UserFrame{bpf.NewUserFrame(0x5201, 3, false)})); err != nil {
		t.Fatal(err)
	}
	if got := string(recorded.Of(&e).AppendFrame(nil, 0x5201, true)); got != "later+0x1 (/tmp/perf-3.map)" {
		t.Errorf("recorded: %s", got)
	}
}

func FuzzReadPerfMap(f *testing.F) {
	f.Add("5000 10 f\n4000 2000 g\n")
	f.Fuzz(func(_ *testing.T, text string) {
		m := image{funcs: readPerfMap(strings.NewReader(text))}
		m.find(0x5000)
	})
}
