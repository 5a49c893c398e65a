// SPDX-License-Identifier: Apache-2.0

package livetest

import (
	"fmt"
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for env, want := range map[string]time.Duration{"": time.Minute, "0.25": time.Minute, "x": time.Minute, "2.5": 150 * time.Second} {
		t.Setenv(SlowEnv, env)
		if got := Patience(time.Minute); got != want {
			t.Errorf("%s=%q: %v, want %v", SlowEnv, env, got, want)
		}
	}
}

// TestMine: each repeat is one guest's, and without shares everybody's.
func TestMine(t *testing.T) {
	for i := range 10 {
		takers := 0
		for share := range 3 {
			t.Setenv(ShareEnv, fmt.Sprintf("%d/3", share))
			if Mine(t, i) {
				takers++
			}
		}
		if takers != 1 {
			t.Errorf("%d of 3 guests take repeat %d", takers, i)
		}
		for _, env := range []string{"", "3/3", "-1/3", "x"} {
			if t.Setenv(ShareEnv, env); !Mine(t, i) {
				t.Errorf("%q: repeat %d is nobody's", env, i)
			}
		}
	}
}
