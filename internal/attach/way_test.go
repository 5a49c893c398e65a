// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// TestReadWaysOnce: a plan that has all ways is returned as it is, and the kernel is not asked again.
func TestReadWaysOnce(t *testing.T) {
	known := &plan.Probe{Way: &plan.Way{}}
	known.Items = []expr.Item{{Path: true}}
	for name, p := range map[string]*plan.Plan{
		"known":       {Probes: []*plan.Probe{known, {}}},
		"none wanted": {Probes: []*plan.Probe{{}}},
	} {
		if got, err := ReadWays(p, nil); got != p || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
