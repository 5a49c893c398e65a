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

// TestOnceMine: each repeat is of one of two guests; those of a test that runs in one guest are all its own.
func TestOnceMine(t *testing.T) {
	for i := range 4 {
		owners := 0
		for _, share := range []string{"0/2", "1/2"} {
			t.Setenv(ShareEnv, share)
			if Mine(t, i) {
				owners++
			}
			if !Mine(named{t, Once[0] + "/part"}, i) {
				t.Errorf("%s leaves out the repeat %d of %s", share, i, Once[0])
			}
		}
		if owners != 1 {
			t.Errorf("repeat %d is run by %d guests", i, owners)
		}
	}
}

// A named is a test of another name.
type named struct {
	testing.TB
	name string
}

func (n named) Name() string { return n.name }
