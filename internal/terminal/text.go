// SPDX-License-Identifier: Apache-2.0

// Package terminal makes text that others have chosen safe to show: names of
// tasks, symbols, files and types. A terminal acts on control characters, and
// lines that change their direction read as what they are not.
//
// What is not printable, and what is not UTF-8, is written as in a C string:
// \n, \t, \r or a \xNN for each byte. Letters of all scripts stay. A backslash
// of the text stays as well, so that to escape a text twice changes nothing.
//
// Writer holds for all that a program prints, wherever the text comes from. A
// name takes AppendName besides: a newline in it would begin a line that looks
// like the program's own.
package terminal

import (
	"unicode"
	"unicode/utf8"
)

// printable reports whether a rune can be shown as it is. Control characters,
// marks that change the direction of text, other invisible ones, and blanks but
// the common one cannot.
func printable(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f
	}
	return unicode.IsPrint(r)
}

// IsPrintable reports whether all of a text can be shown as it is.
func IsPrintable[T ~string | ~[]byte](text T) bool { return clean(text, "") == len(text) }

// AppendName appends a name, which has no business with several lines.
func AppendName[T ~string | ~[]byte](dst []byte, name T) []byte {
	return appendEscaped(dst, name, "")
}

// Name returns a name as AppendName appends it.
func Name(name string) string {
	if clean(name, "") == len(name) {
		return name
	}
	return string(AppendName(nil, name))
}

// AppendLiteral appends the inside of a C string, in which quotes and
// backslashes are escaped as well.
func AppendLiteral(dst, text []byte) []byte {
	for len(text) > 0 {
		if c := text[0]; c == '"' || c == '\\' {
			dst, text = append(dst, '\\', c), text[1:]
			continue
		}
		_, n := decode(text)
		dst, text = appendEscaped(dst, text[:n], ""), text[n:]
	}
	return dst
}

// AppendQuoted appends text as a C literal in quotes, with "..." behind it if that
// is not all of it.
func AppendQuoted(dst, text []byte, cut bool) []byte {
	dst = append(AppendLiteral(append(dst, '"'), text), '"')
	if cut {
		dst = append(dst, "..."...)
	}
	return dst
}

// clean returns how many bytes at the begin of text can be shown as they are.
// Bytes of keep can, too.
func clean[T ~string | ~[]byte](text T, keep string) int {
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, n := decode(text[i:])
		if !printable(r) && !contains(keep, c) || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// appendEscaped appends text. Of what is not printable, bytes of keep stay.
func appendEscaped[T ~string | ~[]byte](dst []byte, text T, keep string) []byte {
	for len(text) > 0 {
		n := clean(text, keep)
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		_, n = decode(text)
		for i := range n {
			dst = appendByte(dst, text[i])
		}
		text = text[n:]
	}
	return dst
}

func appendByte(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '\n':
		return append(dst, `\n`...)
	case '\t':
		return append(dst, `\t`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'x', hex[c>>4], hex[c&15])
}

func contains(set string, c byte) bool {
	for i := range len(set) {
		if set[i] == c {
			return true
		}
	}
	return false
}

// decode returns the first rune of a text and its length.
func decode[T ~string | ~[]byte](text T) (rune, int) {
	if c := text[0]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	// A conversion of so few bytes does not allocate.
	return utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
}
