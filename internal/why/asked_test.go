// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// TestAskedLast: the check of a capability may be the last thing that a function has called, within others
// that have not failed.
func TestAskedLast(t *testing.T) {
	called := func(name string, parent int, failed bool) session.Call {
		addr := map[string]uint64{"may_delete": 1}[name]
		return session.Call{Func: &plan.Probe{Func: kernel.Function{Name: name, Addr: addr}}, Parent: parent, Failed: failed}
	}
	check := []session.Call{called("may_delete", -1, true), called("__check_sticky", 0, false), called(capabilityCheck, 1, true)}
	for name, tt := range map[string]struct {
		calls []session.Call
		want  bool
	}{
		"within another":         {check, true},
		"and behind its caller":  {append(check[:3:3], called("other", -1, false)), true},
		"then it called another": {append(check[:3:3], called("other", 0, false)), false},
		"then another failed":    {append(check[:3:3], called("other", 1, true)), false},
		"it was called again":    {append(check[:3:3], called("may_delete", -1, true)), false},
		"it is not refused":      {append(check[:2:2], called(capabilityCheck, 1, false)), false},
		"it is called by others": {append(check[:1:1], called(capabilityCheck, -1, true)), false},
		"nothing is asked for":   {check[:2], false},
	} {
		if _, last, err := asked(nil, tt.calls, 1); last != tt.want || err != nil {
			t.Errorf("%s: %t, %v", name, last, err)
		}
	}
}

// TestIsWithin: a call is within those that lead to it, and within itself.
func TestIsWithin(t *testing.T) {
	calls := []session.Call{{Parent: -1}, {Parent: 0}, {Parent: 1}, {Parent: 0}, {Parent: 3}, {Parent: -1}}
	for _, tt := range []struct {
		at, within int
		want       bool
	}{{2, 0, true}, {2, 1, true}, {2, 2, true}, {4, 1, false}, {4, 3, true}, {4, 0, true}, {5, 0, false}, {1, 2, false}} {
		if got := isWithin(calls, tt.at, tt.within); got != tt.want {
			t.Errorf("%d within %d: %v", tt.at, tt.within, got)
		}
	}
}
