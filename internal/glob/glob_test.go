// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"**", "abc", true}, {"a**", "a", true},
		{"abc", "abc", true}, {"abc", "abcd", false}, {"abc", "ab", false}, {"a.b", "axb", false},
		{"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"*c", "abcd", false}, {"*ab", "aab", true},
		{"*b*", "abc", true}, {"*b*", "ac", false}, {"a*c", "ac", true}, {"a*a", "a", false}, {"ab*ba", "aba", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"?", "", false}, {"???", "abc", true}, {"?*?", "a", false}, {"?*?", "ab", true},
		{"*?", "", false}, {"*?", "x", true}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false},
		{"*ab*ab*", "ab", false}, {"*ab*ab*", "abab", true}, {"*ab*ab", "ababab", true}, {"a*b*c*d", "aXbYcZd", true}, {"a*b*c*d", "aXcYbZd", false},
		{"*aab*", "aaab", true}, {"[a]", "[a]", true}, {"[a]", "a", false}, {"\\*", "\\x", true},
		{"kernel/bpf/*.c", "kernel/bpf/syscall.c", true}, {"kernel/bpf/*.c", "kernel/bpf/syscall.h", false},
		{"kernel/bpf/*.c", "kernel/bpf/preload/bpf_preload_kern.c", true}, {"kernel/bpf/*.c", "tools/kernel/bpf/syscall.c", false},
		{"net/ipv?/tcp.c", "net/ipv4/tcp.c", true}, {"net/ipv?/tcp.c", "net/ipv/tcp.c", false},
	} {
		if got := Match(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.s, got)
		}
		if got := Match(tt.pattern, []byte(tt.s)); got != tt.want {
			t.Errorf("Match(%q, bytes of %q) = %v", tt.pattern, tt.s, got)
		}
	}
	if Match(strings.Repeat("*a", 1000)+"b", strings.Repeat("a", 10000)+"cb") {
		t.Error("matched")
	}
}

// FuzzMatch compares with path.Match, where the two languages are the same.
func FuzzMatch(f *testing.F) {
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
		if got := Match(pattern, s); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

func TestParts(t *testing.T) {
	for _, tt := range []struct {
		pattern, prefix string
		is              bool
		pieces          []string
	}{
		{"", "", false, []string{""}},
		{"abc", "abc", false, []string{"abc"}},
		{"a?c", "a", true, []string{"a?c"}},
		{"*", "", true, []string{"", ""}},
		{"ab*", "ab", true, []string{"ab", ""}},
		{"a**b", "a", true, []string{"a", "b"}},
		{"*a*", "", true, []string{"", "a", ""}},
		{"a/b*?c***d", "a/b", true, []string{"a/b", "?c", "d"}},
	} {
		if Is(tt.pattern) != tt.is || Prefix(tt.pattern) != tt.prefix || !slices.Equal(Pieces(tt.pattern), tt.pieces) {
			t.Errorf("%q: %v, %q, %q", tt.pattern, Is(tt.pattern), Prefix(tt.pattern), Pieces(tt.pattern))
		}
	}
}
