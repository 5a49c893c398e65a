// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// What terminals understand: ECMA-48, Cursor Position, Erase in Line and Erase in Page.
const (
	toTop      = "\x1b[H"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// Redraw shows text from the top of the terminal on, in place of all that is shown there. What has
// no room is left out: lines are cut, and a text that is too long ends with a mark.
func (t *Writer) Redraw(text []byte) error {
	rows, columns := t.size()
	return t.draw(text, rows, columns)
}

func (t *Writer) size() (rows, columns int) {
	file, ok := t.w.(*os.File)
	if !ok {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Row), int(size.Col)
}

// Clear takes away what Redraw has shown.
func (t *Writer) Clear() error { return t.draw(nil, 0, 0) }

// tooLong stands for the lines that have no room.
const tooLong = "..."

// draw is Redraw for a size, of which 0 is no limit.
func (t *Writer) draw(text []byte, rows, columns int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf[:0], toTop...)
	n := 0
	for line := range bytes.Lines(text) {
		if n++; rows > 0 && n == rows { // the last row, where a newline would move all others
			t.buf = append(t.buf, eraseLine+tooLong...)
			break
		}
		t.buf = append(t.buf, eraseLine...) // not behind the line: there its last column could be erased
		line = cut(bytes.TrimSuffix(line, []byte("\n")), columns)
		if t.colour {
			t.buf = append(appendStyled(t.buf, line), sequences[Plain]...)
		} else {
			t.buf = appendEscaped(t.buf, line, "\t")
		}
		t.buf = append(t.buf, "\r\n"...)
	}
	t.buf = append(t.buf, eraseBelow...)
	_, err := t.w.Write(t.buf)
	if err != nil {
		t.fail(err)
	}
	return err
}

// cut returns as much of a line as has room; 0 columns are no limit. Marks of styles take none.
func cut(line []byte, columns int) []byte {
	if columns == 0 {
		return line
	}
	at := 0
	for used := 0; at < len(line); {
		r, n := utf8.DecodeRune(line[at:])
		switch {
		case IsStyle(r):
		case printable(r) && !(r == utf8.RuneError && n == 1):
			used++
		default:
			used += n * len(`\xNN`)
		}
		if used > columns {
			break
		}
		at += n
	}
	return line[:at]
}
