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
func (t *telling) mentioned(f *Failure) (whole, part int) {
	e := f.seenErrno()
	for i, s := range f.Texts {
		if !f.isText(i) || *s == "" {
			continue
		}
		base := path.Base(*s) // which is all that programs tell of libraries
		switch m := t.find(*s, e); {
		case m == asWhole:
			whole += len(*s)
		case m == asPart:
			part += len(*s)
		case base != *s && t.find(base, e) == asWhole:
			part += len(base)
		}
	}
	return whole, part
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
	end, more := -1, false // of the full stops and hyphens behind the last place, and whether the name goes on there
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return best
		}
		before, after := text[:at+i], text[at+i+len(name):]
		at += i + 1
		if behind := len(text) - len(after); behind >= end { // else it is among the same ones
			end, more = goesOn(text, behind)
		}
		switch {
		case endsInName(before), more && !folder, len(name) == 1 && !singledOut(before, after):
		case more, strings.HasSuffix(before, "/"), strings.HasPrefix(after, "/") && !folder:
			best = max(best, asPart)
		default:
			return asWhole
		}
	}
}

// goesOn reports whether a name that ends at some place of a text goes on. A full stop or a hyphen belongs to it if more
// follows: end is where these end.
func goesOn(text string, at int) (end int, more bool) {
	rest := strings.TrimLeft(text[at:], ".-")
	r, _ := utf8.DecodeRuneInString(rest)
	return len(text) - len(rest), ofName(r)
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
