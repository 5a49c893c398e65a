// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestCountRefused(t *testing.T) {
	for said, want := range map[string]int{
		"":                                    0,
		"said: ksnoop: 3 records lost\n":      0,
		"said: ksnoop: f: not traced: busy\n": 1,
		"said: ksnoop: a, b: not traced: busy\nsaid: ksnoop: 12 functions (a, b, c, d, ...): not traced: notrace\n": 13,
	} {
		if got := countRefused(said); got != want {
			t.Errorf("%q: %d, want %d", said, got, want)
		}
	}
}

// TestWithoutUnnamed: functions that ksnoop refuses by name do not keep others from being traced.
func TestWithoutUnnamed(t *testing.T) {
	const said = "exit status 2: said: ksnoop: 2 faults in the SPECs\nsaid:   b\nsaid:   ^\nsaid:   column 1: the kernel does not let b be traced (notrace); functions that call it may be\n" +
		"said:   d\nsaid:   ^\nsaid:   column 1: the kernel does not let d be traced (notrace); functions that call it may be\n"
	for what, want := range map[string]string{said: "a c", "": "a b c d d", "the guest stood still for 1m0s": "a b c d d"} {
		if got := strings.Join(withoutUnnamed([]string{"a", "b", "c", "d", "d"}, what), " "); got != want {
			t.Errorf("%q: %s, want %s", what, got, want)
		}
	}
}
