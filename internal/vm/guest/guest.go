// SPDX-License-Identifier: Apache-2.0

// Package guest tells a test whether it runs in a guest that may be traced.
// It imports nothing but the standard library, so any package's tests can use it.
package guest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// env is the variable that a guest's init sets to the name of its kernel.
const env = "KSNOOP_GUEST"

// ClockParam is what the kernel of a guest whose clock counts instructions is
// given on its command line.
const ClockParam = "KSNOOP_CLOCK=instructions"

// NoModules is a file that says why the guest has no modules for tests. Where it is
// there, tests that need one are skipped with what it says.
const NoModules = "/lib/ksnoop/absent"

// CountsInstructions reports whether the guest's nanoseconds are instructions.
func CountsInstructions() bool {
	line, err := os.ReadFile("/proc/cmdline")
	return err == nil && In() && strings.Contains(string(line), ClockParam)
}

// Kernel is the name of the guest's kernel, such as "6.12", empty outside of a guest.
func Kernel() string { return os.Getenv(env) }

// In reports whether the process runs in a guest.
func In() bool { return Kernel() != "" }

// Sysctl sets a parameter of the guest's kernel, as "kernel.kptr_restrict", until the test ends.
func Sysctl(t testing.TB, name, value string) {
	t.Helper()
	file := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	before, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(value), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Error(err)
		}
	})
}

// LoadPrograms has another process load the BPF programs of the workload until the test ends, and returns its PID.
func LoadPrograms(t testing.TB) (pid int) {
	t.Helper()
	cmd := exec.Command("workload", "programs")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &errs)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "loaded ") {
		t.Fatalf("%q, %v: %s", line, err, &errs)
	}
	return cmd.Process.Pid
}

// Require skips a live test where there is no guest to try it in.
func Require(t testing.TB) {
	t.Helper()
	if !In() {
		t.Skip("live test: needs a guest, run `make test-live`, or go test -exec 'go run github.com/ksnoop/ksnoop/internal/vm/guestrun'")
	}
}
