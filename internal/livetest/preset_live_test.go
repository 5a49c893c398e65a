// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLivePresets attaches presets for real. What is left out has its reason,
// and what is known to fail, or to be called, is shown.
func TestLivePresets(t *testing.T) {
	guest.Require(t)
	for _, c := range []struct {
		name, work, row string
		least           int // functions
	}{
		{"bpf", "map-array-zero", `!? +\d+us \[-EINVAL\]  array_map_alloc_check`, 1500},
		{"perf", "map-ok", "", 400},
		{"net", "udp-send", `!? +\d+us \[\d+\] +udp_sendmsg`, 2000},
		{"fs", "open-missing", `!? +\d+us \[-ENOENT\]  path_openat`, 1500},
		{"mm", "read", `!? +\d+us \[0x[0-9a-f]+\] +(ksys|vm)_mmap_pgoff`, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case os.Getenv("KSNOOP_SOAK") != "":
			case c.name != "mm", attach.CapKprobeMulti.Probe() != nil:
				t.Skip("takes long: run `make soak`")
			}
			stdout, stderr, status := ksnoop(t, "-v", "-S", "-s", "none", "-n", "workload", "--preset", c.name, "--", "workload", c.work)
			if n := attachedTo(stderr); status != 0 || n < c.least {
				t.Errorf("status %d, %d functions", status, n)
			}
			if c.row != "" && !regexp.MustCompile("(?m)^"+c.row).MatchString(stdout) {
				t.Errorf("no %s in\n%.4000s", c.row, stdout)
			}
			for line := range strings.Lines(stderr) {
				// Handlers of non-maskable interrupts cannot be followed to their return.
				if strings.Contains(line, ": not traced: ") && !strings.Contains(line, "kretprobe of it: ") {
					t.Errorf("for no known reason: %s", line)
				}
			}
			t.Logf("%.3000s", stderr)
		})
	}
}

// TestLivePresetMisses: nothing that a preset traces is called by tracing itself, whose calls the
// kernel would skip each time. Nobody wants to read a warning that is always there.
func TestLivePresetMisses(t *testing.T) {
	guest.Require(t)
	if err := attach.CapKprobeSession.Probe(); err != nil {
		t.Skip(err)
	}
	_, stderr, status := ksnoop(t, "-s", "none", "--preset", "fs", "-x", "ENOENT", "--attach=session", "--", "cat", "/nope")
	if status != 1 || strings.Contains(stderr, "not seen because the kernel skips") {
		t.Errorf("status %d:\n%s", status, stderr)
	}
}

// kernelSays matches the verdict on a function that no program may be attached to.
var kernelSays = regexp.MustCompile(`migrate_disable: .*invalid argument\)?: migrate_disable\n`)

// TestLiveDryRunLoad: the kernel's verdict on each program is told, and nothing
// is attached.
func TestLiveDryRunLoad(t *testing.T) {
	guest.Require(t)
	for want, args := range map[string][]string{
		"would be traced (1):\n  vfs_read(count == 1), by fentry\nwould not be traced:\n  fexit of migrate_disable: …invalid argument…\n": {
			"-F", "migrate_disable", "vfs_read(count == 1)"},
		"would open a session (1):\n  vfs_read\nwould be injected (1):\n  tp:sched:sched_process_exec(pid)\nwould be attached by fentry (1), tracepoint (1)\n" +
			"would not be traced:\n  fexit of migrate_disable: …invalid argument…\n": {
			"-F", "-T", "-e", "vfs_read", "-a", "migrate_disable", "-J", "tp:sched:sched_process_exec(pid)"},
	} {
		out := traced(t, append([]string{"--dry-run=load"}, args...)...)
		// What the kernel says of it, if anything, differs from release to release.
		if out = kernelSays.ReplaceAllString(out, "migrate_disable: …invalid argument…\n"); out != want {
			t.Errorf("%q:\n%swant\n%s", args, out, want)
		}
	}
	if out, err := exec.Command("sh", "-c", "wc -l < /sys/kernel/tracing/kprobe_events; wc -l < /sys/kernel/tracing/enabled_functions").Output(); err != nil || strings.Join(strings.Fields(string(out)), " ") != "0 0" {
		t.Errorf("something is attached: %s, %v", out, err)
	}
}
