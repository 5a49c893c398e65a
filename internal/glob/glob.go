// SPDX-License-Identifier: Apache-2.0

// Package glob matches text against patterns in which * stands for any bytes and
// ? for one byte. All other bytes, [ and \ included, stand for themselves.
package glob

import "strings"

// special are the bytes that stand for others.
const special = "*?"

// Is reports whether a name stands for several.
func Is(name string) bool { return strings.ContainsAny(name, special) }

// Prefix returns what all matches of a pattern begin with.
func Prefix(pattern string) string {
	if n := strings.IndexAny(pattern, special); n >= 0 {
		return pattern[:n]
	}
	return pattern
}

// Match reports whether all of s matches pattern. It goes back to the last *
// only, so it takes at most len(pattern)*len(s) steps.
func Match[T string | []byte](pattern string, s T) bool {
	if n := len(pattern); n > 0 && !strings.ContainsRune(special, rune(pattern[n-1])) && (len(s) == 0 || s[len(s)-1] != pattern[n-1]) {
		return false // as most of a table of names
	}
	p, i := 0, 0
	star, from := -1, 0 // where to go on when a byte differs
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Pieces cuts a pattern at its stars, of which several in a row are one. The
// first piece must begin a match and the last one end it; both may be empty.
func Pieces(pattern string) []string {
	var pieces []string
	for i, p := range strings.Split(pattern, "*") {
		if p != "" || i == 0 || i == strings.Count(pattern, "*") {
			pieces = append(pieces, p)
		}
	}
	return pieces
}
