// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// TestImageSize: the size of an image has the bytes of its unwind information and names, whatever its
// functions are.
func TestImageSize(t *testing.T) {
	program := build(t, "-static")
	f, err := elf.NewFile(strings.NewReader(string(program)))
	if err != nil {
		t.Fatal(err)
	}
	s := newSymbols(fstest.MapFS{"bin/prog": {Data: program}})
	s.unwinds = true
	img, err := (&Process{symbols: s, pid: 7}).image(&mapping{file: fileID{path: "/bin/prog"}})
	if img == nil {
		t.Fatalf("not read: %v", err)
	}
	const numbers = 32 // addresses of a function, and of its name
	least := int(f.Section(".eh_frame").Size)
	for _, f := range img.funcs {
		least += numbers + len(f.name)
	}
	if s.kept < least || s.kept > 4*least {
		t.Errorf("%d bytes, at least %d", s.kept, least)
	}
}

// TestKept: images and generated code are dropped by the bytes that they take.
func TestKept(t *testing.T) {
	root := fstest.MapFS{}
	var events []mappings.Event
	const processes = 3
	for pid := uint32(1); pid <= processes; pid++ {
		root[fmt.Sprintf("tmp/perf-%d.map", pid)] = &fstest.MapFile{Data: []byte("5000 10 " + strings.Repeat("f", 1000) + "\n")}
		events = append(events, mappings.Event{Kind: mappings.Mapped, PID: pid, TID: pid, Time: 1, Start: 0x5000, End: 0x6000, Path: "//anon"})
	}
	s := Following(root, NumberedOurs, &told{events}, true)
	name := func(pid uint32) {
		t.Helper()
		if got := string(s.Of(&bpf.Event{PID: pid, Time: 9}, "py").AppendFrame(nil, 0x5000, false)); !strings.HasPrefix(got, "fff") {
			t.Errorf("process %d: %s", pid, got)
		}
	}
	has := func(images, generated int) {
		t.Helper()
		if len(s.files) != images || len(s.generated) != generated {
			t.Errorf("%d images and %d maps, want %d and %d", len(s.files), len(s.generated), images, generated)
		}
	}
	keep := func(number uint64, names int) {
		s.files[Version{ino: number}] = s.keep(&image{parsed: &parsed{names: names, buildID: strconv.FormatUint(number, 10)}}, nil)
	}
	keep(1, mostKept-2500)
	name(1)
	name(2)
	has(1, 2)
	name(3) // the others are dropped
	has(1, 1)
	name(2)
	has(1, 2)
	keep(2, 1000) // now all the rest
	has(1, 0)
	keep(3, mostKept/2)
	has(2, 0)
	name(1)
	has(2, 1)
	const ids = len("2") + len("3")
	if s.kept != 1000+mostKept/2+ids || s.keptGenerated < 1000 || s.keptGenerated > 1100 {
		t.Errorf("%d and %d bytes", s.kept, s.keptGenerated)
	}
}
