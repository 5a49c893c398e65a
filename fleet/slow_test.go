// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// slowScript measures what a traced read costs while records go to a file, to a collector that takes connections and never
// answers, and to none.
const slowScript = `nc -ll -p 4318 -e sleep 10000 &
server=$!
measure() {
	: >/tmp/said # else grep may find what the run before wrote
	ksnoop -v --max-cpu off --ringbuf 16M -n workload "$@" 'vfs_read(count, return)' >/dev/null 2>/tmp/said &
	traced=$!
	until grep -q attached /tmp/said; do sleep 0.2; done
	sleep 1
	echo "$1 $2 $(workload loop -batches 41)"
	kill -INT $traced
	wait $traced
	grep -v '^--' /tmp/said >&2
}
measure --record /dev/null
measure --otlp http://127.0.0.1:4318
measure --otlp http://127.0.0.1:4319
kill $server
`

// TestSlow: a collector that is slow, or absent, costs the traced side nothing: by the clock of a guest that counts
// instructions, a traced call takes the same as with a recording, to a hundredth (where programs lie in memory makes a difference, too).
func TestSlow(t *testing.T) {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("there is no QEMU: ", err)
	}
	script := filepath.Join(t.TempDir(), "slow.sh")
	if err := os.WriteFile(script, []byte(slowScript), 0o600); err != nil {
		t.Fatal(err)
	}
	guest := exec.Command("go", "run", "./internal/vm/guestrun", "-icount", "-kernel", "6.12", "-cpus", "1", "-file", script+":/slow.sh", "sh", "/slow.sh")
	guest.Dir = ".."
	out, err := guest.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	var least []float64
	for _, m := range regexp.MustCompile(`(?m)^--.* min=([\d.]+)`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		least = append(least, n)
	}
	if len(least) != 3 || slices.Max(least) > 1.01*slices.Min(least) {
		t.Errorf("a call costs not the same: %v", least)
	}
	if strings.Contains(string(out), "the ring buffer was full") { // a call whose record is lost costs less
		t.Error("records were lost before they could be sent")
	}
	if n := strings.Count(string(out), "sent nothing"); n != 2 {
		t.Errorf("%d exports that sent nothing, want 2", n)
	}
}
