// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestFailedTests(t *testing.T) {
	for _, c := range []struct{ failures, want []string }{
		{nil, nil},
		{[]string{"a/b.TestLiveX [6.1]"}, []string{"TestLiveX"}},
		{[]string{"a/b.TestLiveX/part one [6.1]", "a/b.TestLiveX [6.1]", "a/b.TestLiveY [6.1]"}, []string{"TestLiveX", "TestLiveY"}},
		{[]string{"a/b.TestLiveX [6.1]", "a/b [6.1]"}, nil}, // the program itself has failed: there is no saying which test it was
	} {
		if got := (&tally{failures: c.failures}).failedTests(); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.failures, got, c.want)
		}
	}
}

// TestRetry: only what passes when it is run again is no failure, and it is reported.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		again  tally
		failed int
		flaky  []string
	}{
		{tally{passed: 1}, 0, []string{"p.TestLiveX [6.1]"}},
		{tally{passed: 1, failed: 1}, 1, nil},
		{tally{failed: 1}, 1, nil},
		{tally{skipped: 1}, 1, nil},
		{tally{}, 1, nil},
	} {
		first := &tally{passed: 5, failed: 1, failures: []string{"p.TestLiveX [6.1]"}}
		first.retry(&c.again)
		if first.failed != c.failed || len(first.failures) != c.failed || first.passed != 6-c.failed || !slices.Equal(first.flaky, c.flaky) {
			t.Errorf("again %v: %v, %q, %q", &c.again, first, first.failures, first.flaky)
		}
	}
}
