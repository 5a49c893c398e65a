// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplayFollow: a complete recording is followed to its end. One without an end that
// nobody writes is printed as far as it goes.
func TestReplayFollow(t *testing.T) {
	data, err := os.ReadFile("../../testdata/calls.ks")
	if err != nil {
		t.Fatal(err)
	}
	whole, stderr, status := ran("replay", "--follow", "../../testdata/calls.ks")
	if want, _, _ := ran("replay", "../../testdata/calls.ks"); whole != want || stderr != "" || status != 0 {
		t.Errorf("status %d, %q\n%s", status, stderr, whole)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := ran("replay", "--follow", cut)
	if status != exitFailed || stdout != whole || !strings.HasSuffix(stderr, "cut.ks: after 3 records: the recording was cut off: no ksnoop is writing it any more\n") {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
}
