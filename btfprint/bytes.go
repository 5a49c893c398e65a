// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// byteArray writes an array of 1-byte integers: text as a string, other bytes
// as numbers; with Plain all of them one character at a time.
func (w *valueWriter) byteArray(b *body, off int) {
	n := int(b.n)
	if w.flexible(b, off) {
		n = len(w.raw) - off
	}
	raw := w.raw[off:min(off+n, len(w.raw))]
	if b.isChar && !w.o.Plain {
		if w.o.Hide&HideValues == 0 {
			w.text(raw, n)
		}
		return
	}
	if !w.open('[', ']') {
		return
	}
	for i, c := range raw {
		if w.o.MaxElements > 0 && i == w.o.MaxElements {
			w.begin()
			w.str("...")
			w.newline()
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

// text writes an array of n chars, of which raw is what was captured, up to
// the first NUL.
func (w *valueWriter) text(raw []byte, n int) {
	end := bytes.IndexByte(raw, 0)
	whole := end >= 0 || len(raw) == n
	if end >= 0 {
		raw = raw[:end]
	}
	cut := w.o.MaxElements > 0 && len(raw) > w.o.MaxElements
	if cut {
		raw = raw[:w.o.MaxElements]
	}
	// A char takes up to 4 bytes of text.
	if room := max(w.limit-len(w.dst), 0) + 1; len(raw) > room {
		raw = raw[:room]
	}
	w.dst = append(w.dst, '"')
	w.dst = appendEscaped(w.dst, raw)
	w.dst = append(w.dst, '"')
	switch {
	case cut:
		w.str("...")
	case !whole:
		w.str("...")
		w.stopped = true
	}
}

// appendEscaped appends the inside of a C string. Letters outside of ASCII
// stay; what could act on a terminal is written as an escape.
func appendEscaped(dst, raw []byte) []byte {
	for len(raw) > 0 {
		c := raw[0]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(raw)
			if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
				for _, c := range raw[:n] {
					dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
				}
			} else {
				dst = append(dst, raw[:n]...)
			}
			raw = raw[n:]
			continue
		}
		raw = raw[1:]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ' && c < 0x7f:
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}
