// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// collector returns how the collector is set.
func collector() (percent int, limit int64) {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(int32(s[0].Value.Uint64())), debug.SetMemoryLimit(-1)
}

// TestDelayCollection: there is no collection before the process is as large as it may be, and all is as before then.
func TestDelayCollection(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	debug.FreeOSMemory() // else what other tests have left is collected at once
	delayCollection()
	if percent, limit := collector(); percent != -1 || limit != firstCollection {
		t.Errorf("collects at %d %%, with a limit of %d bytes", percent, limit)
	}
	runtime.GC()
	for end := time.Now().Add(livetest.Patience(10 * time.Second)); ; time.Sleep(time.Millisecond) {
		percent, limit := collector()
		if percent == 100 && limit == math.MaxInt64 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after a collection: %d %%, with a limit of %d bytes", percent, limit)
		}
	}
}

// TestCollectionAsSet: what the environment says about the collector stays.
func TestCollectionAsSet(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv(name, "100")
		percent, limit := collector()
		delayCollection()
		if p, l := collector(); p != percent || l != limit {
			t.Errorf("with %s: %d %% and %d bytes, before %d and %d", name, p, l, percent, limit)
		}
	}
}
