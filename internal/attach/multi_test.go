// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// madeLink is a link of some functions.
type madeLink []*plan.Probe

func (madeLink) Close() error { return nil }

// TestHalving: of many functions those that the kernel refuses are left out, each
// with the kernel's word, and all others are hooked once.
func TestHalving(t *testing.T) {
	probes := make([]*plan.Probe, 100)
	for i := range probes {
		probes[i] = &plan.Probe{Probe: layout.Probe{ID: i}, Func: kernel.Function{Name: "f"}}
	}
	for _, c := range []struct {
		name    string
		refused []int
		err     error
		failed  int
	}{
		{"none", nil, nil, 0}, {"one", []int{0}, unix.EINVAL, 1}, {"some", []int{3, 50, 51, 99}, unix.EINVAL, 4},
		{"for another reason", []int{7}, unix.EPERM, 100},
	} {
		made, failed := halving(probes, atEntry, func(part []*plan.Probe) (closer, error) {
			for _, p := range part {
				if slices.Contains(c.refused, p.ID) {
					return nil, c.err
				}
			}
			return madeLink(part), nil
		})
		times := make([]int, len(probes))
		for _, l := range made {
			for _, p := range l.(madeLink) {
				times[p.ID]++
			}
		}
		for _, f := range failed {
			times[f.Probe.ID]++
			if c.failed < len(probes) && !slices.Contains(c.refused, f.Probe.ID) {
				t.Errorf("%s: function %d was left out: %v", c.name, f.Probe.ID, f.Err)
			}
		}
		if len(failed) != c.failed || slices.ContainsFunc(times, func(n int) bool { return n != 1 }) {
			t.Errorf("%s: %d of %d left out, each function so often: %v", c.name, len(failed), c.failed, times)
		}
	}
}
