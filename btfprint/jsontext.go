// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// appendJSONText appends the contents of a JSON string from which every byte can be
// recovered: a backslash is doubled, and a byte that is not UTF-8 becomes \xNN. Unprintable
// characters become \uNNNN, since JSON is read on terminals too.
func appendJSONText[T ~string | ~[]byte](dst []byte, raw T) []byte {
	for len(raw) > 0 {
		r, n := rune(raw[0]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(string(raw[:min(len(raw), utf8.UTFMax)]))
		}
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', '\\', 'x', hexDigits[raw[0]>>4], hexDigits[raw[0]&15])
		case r == '\\':
			dst = append(dst, `\\\\`...)
		case r == '"':
			dst = append(dst, `\"`...)
		case terminal.Printable(r):
			dst = append(dst, raw[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		default:
			dst = appendUnit(dst, r)
		}
		raw = raw[n:]
	}
	return dst
}

// appendUnit appends one UTF-16 unit as \uNNNN.
func appendUnit(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
