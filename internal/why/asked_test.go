// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/session"
)

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
