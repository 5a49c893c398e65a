// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// TestThreadNumberAtEntry: a thread that executes a program gets the number of its process, so $tid is that of the entry. $pid stays.
func TestThreadNumberAtEntry(t *testing.T) {
	for spec, atEntry := range map[string]bool{"f($pid == 5, count()[return])": false, "f($tid == 5, count()[return])": true,
		"f(count()[$pid, return])": false, "f(count()[$tid, return])": true} {
		p := planned(t, spec, layout.MethodFentry)
		if got := p.Entry != nil; got != atEntry {
			t.Errorf("%s: something is done at entry: %v", spec, got)
		}
	}
}
