// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A Writer passes text on to a terminal, or to whatever shows it there later.
// Newlines and tabs stay; all else that is not printable is escaped. It keeps a
// rune of which only the beginning has been written until the rest comes: what
// writes to it may cut the text anywhere. Several goroutines may use it.
//
// Text only goes through it. Raw is for what is no text, or has nothing to escape.
type Writer struct {
	w io.Writer

	mu sync.Mutex // guards the rest
	// part is the beginning of a rune.
	part   []byte
	buf    []byte
	colour bool
	failed error // of the first write that failed
}

var _ io.Writer = (*Writer)(nil)

// Columns returns how many columns the terminal has that the text goes to; 0 if it
// goes to none.
func (t *Writer) Columns() int {
	file, ok := t.w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// IsTerminal reports whether the text goes to a terminal.
func (t *Writer) IsTerminal() bool {
	file, ok := t.w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Raw returns what the text goes to. Nobody may write text in the meantime.
func (t *Writer) Raw() io.Writer { return t.w }

// Colour has the Writer show styles, instead of escaping their marks as it does with any
// text that is not printable.
func (t *Writer) Colour(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.colour = on
}

// Write implements io.Writer.
func (t *Writer) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	whole := text
	if len(t.part) > 0 {
		whole = append(t.part, text...)
	}
	end := len(whole) - begun(whole)
	rest := whole[end:]
	whole = whole[:end]
	if clean(whole, layout) < len(whole) {
		if t.colour {
			t.buf = appendStyled(t.buf[:0], whole)
		} else {
			t.buf = appendEscaped(t.buf[:0], whole, layout)
		}
		whole = t.buf
	}
	if len(whole) > 0 {
		if _, err := t.w.Write(whole); err != nil {
			t.fail(err)
			return 0, err
		}
	}
	t.part = append(t.part[:0], rest...)
	return len(text), nil
}

// Flush writes what is left of a rune that has no end. It returns the error of the
// first write that failed, which the writer may have ignored.
func (t *Writer) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.part) > 0 {
		_, err := t.w.Write(appendEscaped(nil, t.part, layout))
		t.fail(err)
		t.part = t.part[:0]
	}
	return t.failed
}

// fail keeps the first error.
func (t *Writer) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// begun returns how many bytes at the end of a text can be the beginning of a
// rune.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		c := text[len(text)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
