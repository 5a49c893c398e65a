// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
)

// TestAbout: every function and context value of the language is described.
func TestAbout(t *testing.T) {
	values, shown, keys := expr.ContextNames()
	names := slices.Concat(values, shown, keys)
	for _, f := range expr.Builtins() {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if about[name] == "" {
			t.Errorf("%s is not described", name)
		}
	}
}

// TestGroups: many names are shown by what they begin with, and what a shell inserts, which is what all
// candidates begin with, is what all names begin with.
func TestGroups(t *testing.T) {
	var names []string
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			names = append(names, "x_"+string(a)+string(b)+"_one", "x_"+string(a)+string(b)+"_two")
		}
	}
	names = append(names, "x_lonely_name")
	found := grouped(names, "x_", "_", "functions", func(string) string { return "" })
	if len(found) > mostListed+26 {
		t.Errorf("%d groups", len(found))
	}
	next := map[byte]bool{}
	for _, c := range found {
		next[c.Text[0]] = true
	}
	if len(next) != 26 {
		t.Errorf("candidates for %d of 26 characters", len(next))
	}
	few := grouped(slices.Concat(names[:120], []string{"x_lonely_name"}), "x_", "_", "functions", func(string) string { return "a function" })
	if i := slices.IndexFunc(few, func(c Candidate) bool { return c.Name == "x_lonely_name" && c.About == "a function" }); i < 0 {
		t.Errorf("a name that is alone is not whole: %v", few)
	}
	if i := slices.IndexFunc(few, func(c Candidate) bool { return c.Text == "aa_" && c.About == "2 functions" }); i < 0 {
		t.Errorf("no group of two: %v", few)
	}
}
