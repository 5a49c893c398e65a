// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestSender runs the tests of the module above that want a collector, or a minute: it is killed in the middle, and
// 50,000 calls a second are exported.
func TestSender(t *testing.T) {
	p := build(t)
	for _, test := range []struct{ run, pkg string }{{"TestCollectorKilled", "./internal/otlp/export"}, {"TestPacedOTLP", "./cmd/ksnoop"}} {
		t.Run(test.run, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-count=1", "-v", "-run", "^"+test.run+"$", test.pkg)
			cmd.Dir, cmd.Env = "..", append(os.Environ(), "KSNOOP_COLLECTOR="+p.collector)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
