// SPDX-License-Identifier: Apache-2.0

package output

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestProbeName: functions of one name in several modules are told apart.
func TestProbeName(t *testing.T) {
	p := &plan.Plan{}
	for _, f := range []kernel.Function{{Name: "start"}, {Name: "start", Module: "one"}, {Name: "start", Module: "t\x1bwo"}, {Name: "stop", Module: "one"}} {
		p.Probes = append(p.Probes, &plan.Probe{Probe: layout.Probe{Name: f.Name}, Func: f})
	}
	for i, want := range []string{"start", "start [one]", `start [t\x1bwo]`, "stop", "probe 4"} {
		if got := string(appendProbeName(nil, p, uint64(i))); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}
