// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"strings"
	"testing"
)

// TestLockdown runs ksnoop on kernels that are locked down, which lasts until they
// are booted again: integrity leaves tracing alone, confidentiality forbids it,
// and that is said whether or not securityfs tells. What follows a case of the same mode runs
// in its guest.
func TestLockdown(t *testing.T) {
	forOneKernel(t, func(t *testing.T, k Kernel) {
		programs, err := Programs(t.Context(), k.Arch)
		if err != nil {
			t.Fatal(err)
		}
		const read = "ksnoop trace --attach=kprobe 'vfs_read(count == 77, file->f_flags)' -- workload read -count 3 -size 77"
		var m *Machine
		booted := ""
		for _, c := range []struct {
			mode, script string
			status       int
			shown        int // calls
			stderr       string
		}{
			{"integrity", read, 0, 3, ""},
			{"confidentiality", read, 1, 0, "ksnoop: cannot trace: no lockdown: confidentiality (lockdown forbids to read kernel memory)\nboot without lockdown=confidentiality\n"},
			{"confidentiality", "umount /sys/kernel/security; " + read, 1, 0, "ksnoop: cannot trace: BPF programs may not read kernel memory here: boot without lockdown=confidentiality\n"},
		} {
			if c.mode != booted {
				if m != nil {
					m.Close()
				}
				m, booted = boot(t, Guest{Kernel: k, Files: programs, Append: []string{"lockdown=" + c.mode}}), c.mode
			}
			t.Run(c.mode, func(t *testing.T) {
				var out, errs bytes.Buffer
				status, err := m.Run(t.Context(), Command{Args: sh(c.script), Stdout: &out, Stderr: &errs})
				if err != nil {
					t.Fatal(err)
				}
				shown := strings.Count(out.String(), "count = (size_t)77")
				if status.Code != c.status || shown != c.shown || !strings.Contains(errs.String(), c.stderr) {
					t.Errorf("%v, %d records; want %d, %d and %q:\n%s%s", status, shown, c.status, c.shown, c.stderr, &out, &errs)
				}
				if c.status != 0 && strings.Count(errs.String(), "\n") > 3 {
					t.Errorf("not one clear message:\n%s", &errs)
				}
			})
		}
	})
}
