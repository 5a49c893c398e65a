// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// TestGeneratedBefore: code that a process had generated before ksnoop began is in a mapping as well. No file is looked for, not
// even one of that name.
func TestGeneratedBefore(t *testing.T) {
	const maps = "400000-500000 r-xp 00000000 fe:01 131 /usr/bin/java\n7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
	root := fstest.MapFS{"proc/7/maps": {Data: []byte(maps)}, "anon": {Data: []byte("\x7fELF")}, "proc/7/task/7/stat": {Data: []byte("7 (java) S" + strings.Repeat(" 1", 48))}}
	for name, source := range map[string]Source{"followed": &told{}, "not followed": nil} {
		s := Following(root, NumberedOurs, source, false)
		p := s.Of(&bpf.Event{PID: 7, TID: 7, Time: 9}, "java")
		for addr, want := range map[uint64]string{0x401000: "0x401000 (/usr/bin/java)", 0x7f0000000500: "0x7f0000000500 (//anon)", 0x7f0000001500: "0x7f0000001500"} {
			if got := string(p.AppendFrame(nil, addr, true)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if why := p.Missing(); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		if _, known := s.named[fileID{device: "00:00", inode: "0", path: anonymous}]; known {
			t.Errorf("%s: a file was read for generated code", name)
		}
	}
}

// TestPerfMapOwners: anybody may write files in /tmp.
func TestPerfMapOwners(t *testing.T) {
	owned := func(uid uint32, text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(text), Sys: &syscall.Stat_t{Uid: uid}}
	}
	const user, other = 1000, 1001
	alive := owned(user, "")
	alive.Mode = fs.ModeDir
	status := owned(user, "Name:\tpy\nNSpid:\t7\n")
	for _, c := range []struct {
		name  string
		pid   uint32
		alive bool
		owner uint32
		want  bool
	}{
		{"its user's", 7, true, user, true},
		{"another user's", 7, true, other, false},
		{"root's", 7, true, 0, true},
		{"a user's, after its end", 7, false, user, false},
		{"root's, after its end", 7, false, 0, true},
		{"of no process", 0, false, 0, false},
	} {
		root := fstest.MapFS{fmt.Sprintf("tmp/perf-%d.map", c.pid): owned(c.owner, "5000 10 f\n")}
		if c.alive {
			root["proc/7"], root["proc/7/status"] = alive, status
			root["proc/7/root/tmp/perf-7.map"] = root["tmp/perf-7.map"]
		}
		p := &Process{symbols: newSymbols(root), pid: c.pid}
		if f, _ := p.generated(0x5004); (f != nil) != c.want {
			t.Errorf("%s: %v", c.name, f)
		}
	}
}

// TestPerfMapLink: a link is not followed, whomever the file that it leads to belongs to.
func TestPerfMapLink(t *testing.T) {
	own := fmt.Sprint(os.Getpid())
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "proc", own, "root/tmp"), 0o755), os.MkdirAll(filepath.Join(dir, "var"), 0o755)); err != nil {
		t.Fatal(err)
	}
	file, at := filepath.Join(dir, "var/file"), filepath.Join(dir, "proc", own, "root/tmp/perf-"+own+".map")
	if err := errors.Join(os.WriteFile(file, []byte("5000 10 f\n"), 0o600), os.WriteFile(filepath.Join(dir, "proc", own, "status"), []byte("Name:\tx\nNSpid:\t"+own+"\n"), 0o644),
		os.Symlink(file, at)); err != nil {
		t.Fatal(err)
	}
	generated := func(root fs.FS) *function {
		p := &Process{symbols: newSymbols(root), pid: uint32(os.Getpid())}
		f, _ := p.generated(0x5004)
		return f
	}
	if f := generated(os.DirFS(dir)); f != nil {
		t.Errorf("a link was followed: %v", f)
	}
	if err := os.Rename(file, at); err != nil {
		t.Fatal(err)
	}
	if f := generated(os.DirFS(dir)); f == nil {
		t.Error("the file itself is not read")
	}
	made := fstest.MapFS{"var/file": {Data: []byte("5000 10 f\n")}, "proc/" + own + "/root/tmp/perf-" + own + ".map": {Data: []byte("../../../../var/file"), Mode: fs.ModeSymlink}}
	if f := generated(made); f != nil {
		t.Errorf("a link of a test was followed: %v", f)
	}
}

func FuzzReadPerfMap(f *testing.F) {
	f.Add("5000 10 f\n4000 2000 g\n")
	f.Fuzz(func(_ *testing.T, text string) {
		m := parsed{funcs: readPerfMap(strings.NewReader(text))}
		m.find(0x5000)
	})
}

// TestPerfMapOfNothing: lines that are none are not read without end.
func TestPerfMapOfNothing(t *testing.T) {
	const function = "1000 10 f\n"
	if got := readPerfMap(strings.NewReader(strings.Repeat("\n", mostFunctions-1) + function + function)); len(got) != 1 {
		t.Errorf("behind fewer lines: %d functions", len(got))
	}
	if got := readPerfMap(strings.NewReader(strings.Repeat("\n", mostFunctions) + function)); len(got) != 0 {
		t.Errorf("behind too many lines: %d functions", len(got))
	}
}
