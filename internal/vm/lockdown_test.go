// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"strings"
	"testing"
)

// TestLockdown runs ksnoop on kernels that are locked down, which lasts until they
// are booted again: integrity leaves tracing alone, confidentiality forbids it,
// and that is said whether or not securityfs tells.
func TestLockdown(t *testing.T) {
	forOneKernel(t, func(t *testing.T, k Kernel) {
		programs, err := Programs(t.Context(), k.Arch)
		if err != nil {
			t.Fatal(err)
		}
		const read = "ksnoop trace --attach=kprobe 'vfs_read(count == 77, file->f_flags)' -- workload read -count 3 -size 77"
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
			t.Run(c.mode, func(t *testing.T) {
				m := boot(t, Guest{Kernel: k, Files: programs, Append: []string{"lockdown=" + c.mode}})
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
