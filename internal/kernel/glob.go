// SPDX-License-Identifier: Apache-2.0

package kernel

import "strings"

// isGlob reports whether a name stands for several.
func isGlob(name string) bool { return strings.ContainsAny(name, "*?") }

// match reports whether s matches glob, in which * stands for any bytes and ?
// for one. It goes back to the last * only, so it takes at most len(glob)*len(s)
// steps.
func match[T string | []byte](glob string, s T) bool {
	g, i := 0, 0
	star, mark := -1, 0 // where to go on when a character differs
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g++
			i++
		case star >= 0:
			mark++
			g, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
