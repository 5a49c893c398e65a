// SPDX-License-Identifier: Apache-2.0

package btfprint

import "unicode/utf8"

// appendJSONText appends the inside of a JSON string that gives back every
// byte: a backslash of the text is doubled, a byte that is not UTF-8 is \xNN.
func appendJSONText(dst, raw []byte) []byte {
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', '\\', 'x', hexDigits[raw[0]>>4], hexDigits[raw[0]&15])
		case r == '\\':
			dst = append(dst, `\\\\`...)
		default:
			dst = appendJSONRune(dst, r, raw[:n])
		}
		raw = raw[n:]
	}
	return dst
}

// appendQuoted appends a name as a JSON string.
func appendQuoted(dst []byte, name string) []byte {
	dst = append(dst, '"')
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c >= 0x7f {
			c = '?'
		}
		dst = appendJSONRune(dst, rune(c), []byte{c})
	}
	return append(dst, '"')
}

func appendJSONRune(dst []byte, r rune, encoded []byte) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r < ' ' || r == 0x7f:
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return append(dst, encoded...)
}
