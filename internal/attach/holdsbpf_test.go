// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os/exec"
	"testing"
)

// TestHoldsBPF: a process without programs and maps is no tracer, whatever its number was before.
func TestHoldsBPF(t *testing.T) {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if holdsBPF(other.Process.Pid) {
		t.Error("sleep has programs or maps")
	}
	if !holdsBPF(1 << 30) {
		t.Errorf("nothing is known of a process that is not there, and it is taken for no tracer")
	}
}
