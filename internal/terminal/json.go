// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends the contents of a JSON string from which every byte of a text can be
// recovered: a backslash is doubled, and a byte that is not UTF-8 becomes \xNN. Unprintable
// characters become \uNNNN, since JSON is read on terminals too.
func AppendJSON[T ~string | ~[]byte](dst []byte, text T) []byte {
	for len(text) > 0 {
		n := plain(text)
		if n > 0 {
			dst = append(dst, text[:n]...)
			text = text[n:]
			continue
		}
		r, n := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			r, n = decode(text)
		}
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', '\\', 'x', hexDigits[text[0]>>4], hexDigits[text[0]&15])
		case r == '\\':
			dst = append(dst, `\\\\`...)
		case r == '"':
			dst = append(dst, `\"`...)
		case printable(r):
			dst = append(dst, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		default:
			dst = appendUnit(dst, r)
		}
		text = text[n:]
	}
	return dst
}

// plain returns how many characters at the start of a text stand for themselves in JSON, and
// are ASCII.
func plain[T ~string | ~[]byte](text T) int {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(text)
}

const hexDigits = "0123456789abcdef"

// appendUnit appends one UTF-16 unit as \uNNNN.
func appendUnit(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
