// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestReplayRecorded: what was recorded in a guest is printed as it was there, wherever
// it is replayed.
func TestReplayRecorded(t *testing.T) {
	local := time.Local
	time.Local = time.UTC // as in the guest
	defer func() { time.Local = local }()
	for _, name := range []string{"../../testdata/calls", "../../testdata/sessions"} {
		stdout, stderr, status := ran("replay", name+".ks")
		if *update && status == 0 {
			if err := os.WriteFile(name+".txt", []byte(stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if status != 0 || stderr != "" || stdout != string(want) {
			t.Errorf("%s.ks: status %d, stderr %q, stdout:\n%s\nwant:\n%s", name, status, stderr, stdout, want)
		}
	}
}
