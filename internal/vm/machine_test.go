// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	for _, c := range []struct {
		stat string
		want time.Duration
	}{
		{"7 (qemu-system-x86) S 1 7 7 0 -1 4194304 100 0 0 0 1234 66 5 4 20 0 3 0 100 0 0", 13 * time.Second},
		{"7 (a b) c) R 1 7 7 0 -1 4194304 100 0 0 0 1 2 5 4 20 0", 30 * time.Millisecond},
		{"7 (cut) R 1 7 7 0 -1 4194304 100 0 0 0 1", 0},
		{"7 (odd) R 1 7 7 0 -1 4194304 100 0 0 0 x 2 5 4 20 0", 0},
		{"", 0},
	} {
		if got := cpuTime(c.stat); got != c.want {
			t.Errorf("%q: %v, want %v", c.stat, got, c.want)
		}
	}
}
