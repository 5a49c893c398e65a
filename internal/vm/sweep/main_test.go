// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

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
