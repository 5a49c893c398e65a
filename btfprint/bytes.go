// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// byteArray writes an array of 1-byte integers. Chars, and other bytes that look like text,
// are a string; anything else is a list of numbers. Plain writes one character at a time,
// as libbpf does.
func (w *valueWriter) byteArray(b *body, off int) {
	raw, n := w.bytesOf(b, off)
	if !w.o.Plain && (b.isChar || b.holdsText(raw, n)) {
		if w.o.Hide&HideValues == 0 {
			w.text(raw, n)
		}
		return
	}
	if !w.open('[', ']') {
		return
	}
	for i, c := range raw {
		if w.most(i) {
			w.more()
			break
		}
		if w.full() {
			return
		}
		if w.o.Plain && c == 0 && !w.o.ShowZeroes {
			break
		}
		w.begin()
		w.byteElement(c, b.signed)
		w.end()
		w.newline()
		if w.o.Plain && c == 0 {
			break
		}
	}
	if len(raw) < n && !(w.o.Plain && bytes.IndexByte(raw, 0) >= 0) {
		w.truncate()
		w.closeNested(']')
		return
	}
	w.depth--
	w.close(']')
}

// byteElement writes one byte of an array that is not text, as Plain wants it.
func (w *valueWriter) byteElement(c byte, signed bool) {
	switch {
	case w.o.Hide&HideValues != 0:
	case w.o.Plain && c == 0:
		w.str(`'\0'`)
	case w.o.Plain && c >= ' ' && c < 0x7f:
		w.dst = append(w.dst, '\'', c, '\'')
	case signed:
		w.dst = strconv.AppendInt(w.dst, int64(int8(c)), 10)
	default:
		w.dst = strconv.AppendUint(w.dst, uint64(c), 10)
	}
}

// holdsText reports whether n bytes declared as numbers look like text, as in d_iname of a
// dentry: they are printable, and after the NUL there is nothing.
func (b *body) holdsText(raw []byte, n int) bool {
	end := bytes.IndexByte(raw, 0)
	return !b.isBool && !b.signed && len(raw) == n && end > 0 && allZero(raw[end:]) && terminal.IsPrintable(raw[:end])
}

// ended returns the part of n chars that is shown, of which raw was captured: all but the
// NULs at the end. An array that starts with a NUL need not be empty: the port in a
// sockaddr's sa_data is often below 256. whole says that the shown text is complete.
func ended(raw []byte, n int) (text []byte, whole bool) {
	text = bytes.TrimRight(raw, "\x00")
	return text, len(raw) == n || bytes.IndexByte(raw, 0) == len(text)
}

// throughNUL returns the string at a `char *` up to its NUL; the bytes after it are not
// part of it.
func throughNUL(raw []byte) []byte {
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		return raw[:end+1]
	}
	return raw
}

// text writes an array of n chars, of which raw was captured.
func (w *valueWriter) text(raw []byte, n int) {
	raw, whole := ended(raw, n)
	cut := w.o.MaxElements > 0 && len(raw) > w.o.MaxElements
	if cut {
		raw = raw[:w.o.MaxElements]
	}
	// One char takes up to 4 bytes of output, and at least 1.
	if room := max(w.limit-len(w.dst), 0) + 1; len(raw) > room {
		raw = raw[:room]
	}
	w.dst = terminal.AppendQuoted(w.dst, raw, cut || !whole)
	w.stopped = w.stopped || !cut && !whole
}
