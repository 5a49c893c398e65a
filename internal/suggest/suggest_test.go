// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	candidates := []string{"count", "buf", "file", "pos", "f_flags", "f_mode", "", "skb", "sk"}
	for _, tt := range []struct{ name, want string }{
		{"cuont", "count"}, {"counts", "count"}, {"coun", "count"}, {"cnt", "count"}, {"fiel", "file"}, {"flags", "f_flags"},
		{"f_falgs", "f_flags"}, {"pso", "pos"}, {"zzzzzz", ""}, {"skbb", "skb"}, {"count", ""}, {"", ""}, {"COUNT", "count"}, {"F_Flags", "f_flags"}, {"SKB", "skb"},
	} {
		if got := Nearest(tt.name, slices.Values(candidates)); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		d    int
	}{
		{"a", "a", 0}, {"a", "b", 1}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abcd", "badc", 2}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
		{"tcp_sendmsg", "tcp_recvmsg", 3}, {"vfs_raed", "vfs_read", 1},
	} {
		// With all limits around the distance: within it, it is exact.
		for limit := max(0, tt.d-2); limit < tt.d+3; limit++ {
			s := &Search{name: tt.a, limit: limit}
			for _, before := range []string{"", "longer_than_all_the_others", tt.b} { // its memory is used again
				s.Distance([]byte(before))
			}
			if d, near := s.Distance([]byte(tt.b)); near != (tt.d <= limit) || near && d != tt.d {
				t.Errorf("limit %d: distance of %q and %q is %d, %v, want %d", limit, tt.a, tt.b, d, near, tt.d)
			}
		}
	}
}

func TestDidYouMean(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, `did you mean "a"?`: {"a"}, `did you mean "a" or "b"?`: {"a", "b"}, `did you mean "\n"?`: {"", "\n"},
	} {
		if got := DidYouMean(names...); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
	if got := DidYouMean(""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
