// SPDX-License-Identifier: Apache-2.0

package why

import "strings"

// A telling is a text that is compared with many calls, of which most have the same few errors and names: what it says of each
// is found once.
type telling struct {
	text, lower string
	errors      map[uint64]bool   // whether it names them
	rest        map[uint64]string // it without what they are called
	found       map[foundName]match
}

// A foundName is a name that is looked for beside an error.
type foundName struct {
	errno uint64
	name  string
}

func newTelling(text string) *telling {
	return &telling{text, strings.ToLower(text), map[uint64]bool{}, map[uint64]string{}, map[foundName]match{}}
}

// namesError reports whether it names an error: by its message, whoever spells it, or by its name.
func (t *telling) namesError(e uint64) bool {
	named, ok := t.errors[e]
	if !ok {
		at, _ := findMessage(t.lower, e)
		named = at >= 0 || hasWord(t.text, errorName(e))
		t.errors[e] = named
	}
	return named
}

// names reports whether it names the error of a call, or has the answer to a request.
func (t *telling) names(f *Failure) bool {
	return t.namesError(f.seenErrno()) || f.request.says(t.text)
}

// find returns how a name stands in it beside an error.
func (t *telling) find(name string, e uint64) match {
	key := foundName{e, name}
	m, ok := t.found[key]
	if !ok {
		m = find(t.without(e), name)
		t.found[key] = m
	}
	return m
}

// without returns it without what an error is called: a file may have the name "file".
func (t *telling) without(e uint64) string {
	rest, ok := t.rest[e]
	if !ok {
		rest = t.text
		if at, n := findMessage(t.lower, e); at >= 0 && len(t.lower) == len(t.text) { // small letters may take more bytes
			rest = t.text[:at] + t.text[at+n:]
		}
		t.rest[e] = rest
	}
	return rest
}

// hasWord reports whether a text has a word that no letter or digit stands beside.
func hasWord(text, word string) bool {
	for rest := text; ; {
		i := strings.Index(rest, word)
		if i < 0 {
			return false
		}
		end := i + len(word)
		if (i == 0 || !inWord(rest[i-1])) && (end == len(rest) || !inWord(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func inWord(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
}
