// SPDX-License-Identifier: Apache-2.0

package why

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mentioned returns how many bytes a text has of the strings that were passed to a call: of those that stand
// in it as such, and of those that are only a part of what stands there, or of which a part does.
func mentioned(text string, f *Failure) (whole, part int) {
	text = withoutMessage(text, f)
	for i, s := range f.Texts {
		if !f.isText(i) || *s == "" {
			continue
		}
		base := path.Base(*s) // which is all that programs tell of libraries
		switch m := find(text, *s); {
		case m == asWhole:
			whole += len(*s)
		case m == asPart:
			part += len(*s)
		case base != *s && find(text, base) == asWhole:
			part += len(base)
		}
	}
	return whole, part
}

// withoutMessage cuts what the error is called out of a text: a file may have the name "file".
func withoutMessage(text string, f *Failure) string {
	lower := strings.ToLower(text)
	at, n := findMessage(lower, f.seenErrno())
	if at < 0 || len(lower) != len(text) { // small letters may take more bytes
		return text
	}
	return text[:at] + text[at+n:]
}

// A match is how a name stands in a text.
type match uint8

const (
	noMatch match = iota
	asPart        // of a longer path: "bar" and "/tmp" in "/tmp/bar"
	asWhole
)

// find returns how a name stands in a text, at best. "/tmp/z" is not in "/tmp/zz" or "/tmp/z.old".
func find(text, name string) (best match) {
	folder := strings.HasSuffix(name, "/")
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return best
		}
		before, after := text[:at+i], text[at+i+len(name):]
		at += i + 1
		more := goesOn(after)
		switch {
		case endsInName(before), more && !folder, len(name) == 1 && !singledOut(before, after):
		case more, strings.HasSuffix(before, "/"), strings.HasPrefix(after, "/") && !folder:
			best = max(best, asPart)
		default:
			return asWhole
		}
	}
}

// goesOn reports whether a name goes on with a text. A full stop or a hyphen belongs to it if more follows.
func goesOn(text string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, ".-"))
	return ofName(r)
}

// endsInName reports whether a text ends within a name.
func endsInName(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return ofName(r) || r == '.' || r == '-'
}

func ofName(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// singledOut reports whether what stands between two texts is a name, though it is as short as the word
// "a" or a full stop: it is in quotes, or a colon is behind it.
func singledOut(before, after string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	const quotes = "'\"`‘’“”«»"
	return strings.ContainsRune(quotes, next) && strings.ContainsRune(quotes, r) || next == ':' && unicode.IsSpace(r)
}
