// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"io"
)

// Limits on what is read of one file. Whoever runs a process chooses the files that it
// maps, and these may claim anything. Browsers, the largest programs known, have half as
// much.
const (
	mostSymbols   = 1 << 23 // entries of a table, most of which may be empty
	mostFunctions = 1 << 21
	mostNames     = 1 << 27 // bytes
)

// A window is the part of a section that was read last. Sections are mostly read from start
// to end.
type window struct {
	r       io.ReaderAt
	section uint64 // where it is in the file
	size    uint64
	start   uint64 // offset of the window in the section
	bytes   []byte
	buffer  []byte
}

const (
	mostName   = 1 << 14 // bytes of one name
	windowSize = 4 * mostName
)

func newWindow(r io.ReaderAt, s *elf.Section) *window {
	return &window{r: r, section: s.Offset, size: s.FileSize, buffer: make([]byte, windowSize)}
}

// read moves the window to off.
func (w *window) read(off uint64) {
	w.start, w.bytes = off, nil
	if off >= w.size || w.section+off < off || w.section+off > 1<<62 {
		return
	}
	n, _ := w.r.ReadAt(w.buffer[:min(windowSize, w.size-off)], int64(w.section+off))
	w.bytes = w.buffer[:n]
}

// at returns n bytes, valid until the next call. It returns nil if they are not in the
// section.
func (w *window) at(off uint64, n int) []byte {
	for range 2 {
		if from := off - w.start; off >= w.start && n <= len(w.bytes) && from <= uint64(len(w.bytes)-n) {
			return w.bytes[from:][:n]
		}
		w.read(off)
	}
	return nil
}

// text returns a copy of the string at off, without its NUL.
func (w *window) text(off uint64) (string, bool) {
	for range 2 {
		if off >= w.start && off-w.start < uint64(len(w.bytes)) {
			b := w.bytes[off-w.start:]
			b = b[:min(mostName, len(b))]
			if n := bytes.IndexByte(b, 0); n >= 0 {
				return string(b[:n]), true
			}
			if len(b) == mostName {
				return "", false
			}
		}
		w.read(off)
	}
	return "", false
}
