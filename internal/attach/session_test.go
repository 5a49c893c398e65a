// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestArgLists: the engine finds what it captures by the number of a function, also where functions without arguments come before.
func TestArgLists(t *testing.T) {
	captured := func(words int) *plan.Probe {
		return &plan.Probe{Probe: layout.Probe{Args: []layout.Arg{{Words: words, Word: 0}}}}
	}
	p := &plan.Plan{Probes: []*plan.Probe{{}, captured(1), {}, captured(2)}}
	lists := argLists(p)
	if len(lists) != len(p.Probes) {
		t.Fatalf("%d lists of %d functions", len(lists), len(p.Probes))
	}
	for i, f := range p.Probes {
		if want := layout.ArgWords(f.Args); lists[i].Words != want {
			t.Errorf("function %d: %d words, want %d", i, lists[i].Words, want)
		}
	}
	if lists := argLists(&plan.Plan{Probes: []*plan.Probe{{}, {}}}); lists != nil {
		t.Errorf("nothing is captured: %v", lists)
	}
}
