// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReplayMerged: recordings of one boot are printed together, by time, whichever is named
// first. What is asked for holds for each.
func TestReplayMerged(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // as in the guest
	defer func() { time.Local = local }()
	const dir = "../../testdata/"
	var want string
	for _, name := range []string{"calls.txt", "sessions.txt"} { // in this order they were made
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		want += string(text)
	}
	for _, args := range [][]string{{dir + "calls.ks", dir + "sessions.ks"}, {dir + "sessions.ks", dir + "calls.ks"}} {
		if stdout, stderr, status := ran(append([]string{"replay"}, args...)...); stdout != want || stderr != "" || status != 0 {
			t.Errorf("%q: status %d, %q\n%s\nwant\n%s", args, status, stderr, stdout, want)
		}
	}
	twice, stderr, status := ran("replay", "--compact", dir+"calls.ks", dir+"calls.ks")
	once, _, _ := ran("replay", "--compact", dir+"calls.ks")
	if status != 0 || stderr != "" || strings.Count(twice, "vfs_read(") != 2*strings.Count(once, "vfs_read(") || strings.Count(twice, "TIMESTAMP") != 1 {
		t.Errorf("status %d, %q\n%s", status, stderr, twice)
	}
}

func TestReplayMergedRefuses(t *testing.T) {
	const calls = "../../testdata/calls.ks"
	data, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--follow goes with one FILE":                           {"--follow", calls, calls},
		"--expect goes with one FILE":                           {"--expect", "3", calls, calls},
		"gone.ks: no such file or directory":                    {calls, "gone.ks"},
		cut + ": after 3 records: the recording was cut off":    {calls, cut},
		"--no-stack is about sessions, and calls were recorded": {"--no-stack", calls, calls},
		"goes with one FILE: several are printed as text":       {"--format", "json", calls, calls},
	} {
		_, stderr, status := ran(append([]string{"replay"}, args...)...)
		if status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, want %s", args, status, stderr, want)
		}
	}
}
