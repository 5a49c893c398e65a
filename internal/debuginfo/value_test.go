// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"strings"
	"testing"
)

// TestLongNames: names are limited in each form in which entries have them.
func TestLongNames(t *testing.T) {
	for n, want := range map[int]int{1: 1, mostText - 1: mostText - 1, mostText: 0, 1 << 20: 0} {
		text := []byte(strings.Repeat("x", n) + "\x00")
		u := &unit{sections: &sections{str: text}}
		c := cursor{b: text}
		for _, v := range []value{u.read(&c, attribute{form: formString}), {form: formStrp}} {
			if got := len(u.str(v)); got != want {
				t.Errorf("form %#x: a name of %d bytes is one of %d, want %d", v.form, n, got, want)
			}
		}
	}
}
