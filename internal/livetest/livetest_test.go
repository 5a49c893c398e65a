// SPDX-License-Identifier: Apache-2.0

package livetest

import (
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
