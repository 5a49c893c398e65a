// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"**", "abc", true},
		{"abc", "abc", true}, {"abc", "abcd", false}, {"abc", "ab", false},
		{"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"*c", "abcd", false},
		{"*b*", "abc", true}, {"*b*", "ac", false}, {"a*c", "ac", true}, {"a*a", "a", false}, {"ab*ba", "aba", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"?", "", false}, {"???", "abc", true}, {"?*?", "a", false}, {"?*?", "ab", true},
		{"*ab*ab*", "ab", false}, {"*ab*ab*", "abab", true}, {"*ab*ab", "ababab", true}, {"a*b*c*d", "aXbYcZd", true}, {"a*b*c*d", "aXcYbZd", false},
		{"*aab*", "aaab", true}, {"[a]", "[a]", true}, {"[a]", "a", false}, {"\\*", "\\x", true},
	} {
		if got := Glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

// FuzzGlob compares with path.Match, where the two languages are the same.
func FuzzGlob(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add("*ab*ab*", "xabyab")
	f.Add("?*?", "ab")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		ascii := func(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }
		if strings.ContainsAny(pattern, "[]\\/") || strings.Contains(s, "/") || !ascii(pattern) || !ascii(s) || len(pattern) > 40 {
			return
		}
		want, err := path.Match(pattern, s)
		if err != nil {
			return
		}
		if got := Glob(pattern, s); got != want {
			t.Errorf("Glob(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

func TestNearest(t *testing.T) {
	candidates := []string{"count", "buf", "file", "pos", "f_flags", "f_mode", "", "skb", "sk"}
	for _, tt := range []struct{ name, want string }{
		{"cuont", "count"}, {"counts", "count"}, {"coun", "count"}, {"cnt", "count"}, {"fiel", "file"}, {"flags", "f_flags"},
		{"f_falgs", "f_flags"}, {"pso", "pos"}, {"zzzzzz", ""}, {"skbb", "skb"}, {"count", ""}, {"", ""},
	} {
		if got := Nearest(tt.name, slices.Values(candidates)); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		a, b string
		d    int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abcd", "badc", 2}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := editDistance(tt.a, tt.b); got != tt.d {
			t.Errorf("distance of %q and %q is %d, want %d", tt.a, tt.b, got, tt.d)
		}
	}
}
