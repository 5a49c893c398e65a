// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"
)

func TestContention(t *testing.T) {
	if got := contention(); got < 1 || got > 1000 {
		t.Errorf("contention %v", got)
	}
}

// Silence counts from the last word, and on a slow guest for as many times longer.
func TestWatch(t *testing.T) {
	const limit = 50 * time.Millisecond
	w := newWatch(limit, 3)
	begin := time.Now()
	time.Sleep(2 * limit)
	if _, err := w.Write([]byte("a word")); err != nil {
		t.Fatal(err)
	}
	silent := w.wait(t.Context())
	if took := time.Since(begin); silent <= 3*limit || took < 5*limit {
		t.Errorf("silent for %v after %v", silent, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if silent := newWatch(time.Hour, 1).wait(ctx); silent != 0 {
		t.Errorf("silent for %v when stopped", silent)
	}
}
