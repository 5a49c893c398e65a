// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
)

// callOf returns the linked address behind the call of one function by another.
func callOf(t *testing.T, program []byte, img *image, from, to string) uint64 {
	t.Helper()
	caller, callee := addressOf(t, img, from), addressOf(t, img, to)
	for _, p := range img.loads {
		if caller < p.Vaddr || caller-p.Vaddr >= p.Filesz {
			continue
		}
		code := program[caller-p.Vaddr+p.Off:]
		for i := range 200 {
			const call, size = 0xe8, 5
			if next := caller + uint64(i) + size; code[i] == call && next+uint64(int64(int32(binary.LittleEndian.Uint32(code[i+1:])))) == callee {
				return next
			}
		}
	}
	t.Skip("no call, as on other machines than amd64")
	return 0
}

// TestNoCaller: an address that no call is before, in a file that can be read, is no return address; of other addresses that
// is not known.
func TestNoCaller(t *testing.T) {
	for name, args := range map[string][]string{"static": {"-static"}, "stripped": {"-static", "-s"}, "position-independent": {"-static-pie"}} {
		slide := uint64(0)
		if name == "position-independent" {
			slide = 0x7f1234560000
		}
		program := build(t, args...)
		fsys, img := machine(t, program, slide)
		symbols := img
		if name == "stripped" {
			var err error
			if symbols, err = readImage(strings.NewReader(string(build(t, "-static")))); err != nil {
				t.Fatal(err)
			}
		}
		call := callOf(t, program, symbols, "main", "two") + slide
		fsys["proc/7/maps"].Data = append(fsys["proc/7/maps"].Data, "7fff00000000-7fff00001000 r-xp 0 00:00 0\n7fff00002000-7fff00003000 r-xp 0 00:00 0 [uprobes]\n7fff00004000-7fff00005000 r-xp 0 fe:01 8 /gone\n"...)
		p := newSymbols(fsys).process(7, 7, "prog")
		for addr, want := range map[uint64]bool{call: false, call - 1: true, call + 1: true, 0: false, 0x5000_0000_0000: false,
			0x7fff00000100: false, 0x7fff00002100: false, 0x7fff00004100: false, ^uint64(0): false} {
			for range 2 { // the second answer is remembered
				if got := p.NoCaller(addr); got != want {
					t.Errorf("%s: %#x: %t", name, addr, got)
				}
			}
		}
	}
	p := Unknown("it has ended")
	if p.NoCaller(0x1000) {
		t.Error("it is known of a process of which nothing is known")
	}
}

// TestNoCallerGo: Go's runtime makes frames that no call has made.
func TestNoCallerGo(t *testing.T) {
	img := &image{parsed: &parsed{goCode: true}}
	n := named{mapping: &mapping{file: fileID{path: "/bin/prog"}}, image: img, offset: 0x100}
	p := &Process{symbols: newSymbols(fstest.MapFS{"bin/prog": {Data: bytes.Repeat([]byte{0x90}, 4096)}})}
	if p.noCaller(&n) {
		t.Error("in Go's code")
	}
}

// TestNoCallerRecorded: a replay knows it, too, without the file.
func TestNoCallerRecorded(t *testing.T) {
	program := build(t, "-static")
	img, err := readImage(strings.NewReader(string(program)))
	if err != nil || img.buildID == "" {
		t.Skip("no build ID", err)
	}
	call := callOf(t, program, img, "main", "two")
	var events []mappings.Event
	for _, l := range img.loads {
		events = append(events, mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: 1, Start: l.Vaddr, End: l.Vaddr + l.Memsz, Offset: l.Off, Path: "/bin/prog", BuildID: img.buildID})
	}
	root := fstest.MapFS{"proc/self/ns/pid": {Mode: fs.ModeSymlink, Data: []byte(initialNamespace)}, "bin/prog": {Data: program}}
	recorder, recorded := Following(root, NumberedOurs, &told{events}, false).NewRecorder(), NewRecorded()
	e := bpf.Event{PID: 7, TID: 7, Time: 9}
	const byPointer = 3
	frames := []bpf.UserFrame{bpf.NewUserFrame(call+1, 0, true), bpf.NewUserFrame(call, byPointer, false), bpf.NewUserFrame(call+1, byPointer, false)}
	if err := recorded.Add(recorder.Append(nil, &e, frames)); err != nil {
		t.Fatal(err)
	}
	p := recorded.Of(&e)
	if p.NoCaller(call) || !p.NoCaller(call+1) {
		t.Errorf("%t behind the call, %t elsewhere", p.NoCaller(call), p.NoCaller(call+1))
	}
	if got := string(p.AppendFrame(nil, call, true)); !strings.HasPrefix(got, "main+") {
		t.Error(got)
	}
}
