// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"unicode/utf8"
)

// A Style is how a Writer shows text, by what the text means.
type Style uint8

const (
	Plain  Style = iota // ends every other style
	Strong              // what a line is about: a function
	Bad                 // an error
	Note                // something is missing
	Faint               // what is seldom looked for
	styles
)

// sequences are what terminals understand: ECMA-48, Select Graphic Rendition.
var sequences = [styles]string{Plain: "\x1b[0m", Strong: "\x1b[1m", Bad: "\x1b[31m", Note: "\x1b[33m", Faint: "\x1b[2m"}

// firstMark is a private rune, and those behind it, which stand for styles in text that has
// been printed. Nothing that others have chosen has one: it is not printable, so AppendName
// escapes it. A rune is never written in pieces, as a sequence can be.
const firstMark = rune(0x10ff00)

// markPrefix is what the marks begin with in UTF-8; a byte follows.
var markPrefix = utf8.AppendRune(nil, firstMark)[:3]

// AppendStyle appends the mark of a style. Only a Writer with colours may be given it.
func AppendStyle(dst []byte, s Style) []byte { return utf8.AppendRune(dst, firstMark+rune(s)) }

// layout is what a text has besides printable characters.
const layout = "\n\t"

// IsStyle reports whether a rune is the mark of a style, which takes no column.
func IsStyle(r rune) bool { return r >= firstMark && r < firstMark+rune(styles) }

// appendStyled appends text as it is shown, with sequences for marks.
func appendStyled(dst, text []byte) []byte {
	for {
		i := bytes.Index(text, markPrefix)
		if i < 0 || i+len(markPrefix) == len(text) {
			return appendEscaped(dst, text, layout)
		}
		next := i + len(markPrefix) + 1
		if s := int(text[next-1]) - 0x80; s >= 0 && s < int(styles) {
			dst = append(appendEscaped(dst, text[:i], layout), sequences[s]...)
		} else {
			dst = appendEscaped(dst, text[:next], layout) // another private rune
		}
		text = text[next:]
	}
}
