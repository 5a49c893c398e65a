// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/unwind"
)

// TestRowsBounded: whatever tells the rows, those that are kept of all files together are bounded, and are found again.
func TestRowsBounded(t *testing.T) {
	const files, each, size = 24, 1 << 12, 1 << 20
	program := build(t, "-static")
	loads := []elf.ProgHeader{{Type: elf.PT_LOAD, Vaddr: size, Filesz: size}}
	s := newSymbols(fstest.MapFS{})
	p := &Process{symbols: s, space: &space{}}
	var images []*image
	for i := range uint64(files) {
		img := &image{parsed: &parsed{loads: loads}}
		at := uint64(0) // in the file
		switch i % 3 {
		case 0:
			var err error
			if img, err = readImage(bytes.NewReader(program)); err != nil {
				t.Fatal(err)
			}
			if img.unwind, err = unwind.Read(bytes.NewReader(program), headOf(t, program)); img.unwind == nil {
				t.Fatal(err)
			}
			at = offsetOf(t, img, "one")
		case 1:
			img.frames = &goFrames{rows: map[uint64]*unwind.Row{}}
		default:
			img.code = &codeFrames{machine: unwind.ARM64(), rows: map[uint64]*unwind.Row{}}
		}
		m := mapping{start: (i + 1) * size, end: (i + 2) * size, offset: at, file: fileID{path: fmt.Sprint(i)}}
		p.space.maps = append(p.space.maps, m)
		p.space.looked.add(m.file, &contents{image: img})
		images = append(images, img)
	}
	kept := func() (sum int) {
		for _, img := range images {
			sum += img.unwind.Kept()
			if img.frames != nil {
				sum += len(img.frames.rows)
			}
			if img.code != nil {
				sum += len(img.code.rows)
			}
		}
		return sum
	}
	ask := func(addr uint64) *unwind.Row {
		left := 1 << 15
		row, _, _ := p.Row(addr, &left)
		return row
	}
	first := ask(size)
	if first == nil {
		t.Fatal("no row where a function is")
	}
	most := 0
	for i := range images {
		for addr := range uint64(each) {
			ask(uint64(i+1)*size + addr)
		}
		sum := kept()
		if sum != s.keptRows {
			t.Fatalf("%d rows are kept, %d are counted", sum, s.keptRows)
		}
		most = max(most, sum)
	}
	if most < mostRows/2 || most > mostRows {
		t.Errorf("%d rows are kept, the most are %d", most, mostRows)
	}
	if again := ask(size); again == nil || again == first {
		t.Error("a row that was forgotten is not looked up again")
	}
	s.drop()
	if n := kept(); n != 0 || s.keptRows != 0 || len(s.withRows) != 0 {
		t.Errorf("%d rows of files that were dropped, %d are counted, of %d files", n, s.keptRows, len(s.withRows))
	}
}

func headOf(t *testing.T, program []byte) *elf.File {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
