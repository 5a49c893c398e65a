// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveMass records every function of the kernel inside bpf(2), and lets the
// system do other work meanwhile.
func TestLiveMass(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("takes 20 seconds and more: run `make soak`")
	}
	if attach.CapKprobeMulti.Probe() != nil {
		t.Skip("without FPROBE the kernel takes minutes to detach so many kprobes")
	}
	dir := t.TempDir()
	mark := func(name string) string { return filepath.Join(dir, name) }
	const work = "workload map-ok; workload map-array-zero; workload read; workload fork; workload threads; workload udp-send"
	cmd := exec.Command("ksnoop", "trace", "-v", "-s", "none", "-e", "*sys_bpf", "-a", "*", "--", "sh", "-c",
		"cat /proc/meminfo >"+mark("memory")+"; touch "+mark("begin")+";"+work+"; touch "+mark("end"))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	before, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Errorf("ksnoop: %v", err)
	}
	ended := time.Now()
	t.Logf("%.3000s\n%.6000s", errs.String(), out.String())
	memory, err := os.ReadFile(mark("memory"))
	if err != nil {
		t.Fatal(err)
	}
	free := func(meminfo []byte) string {
		for line := range strings.Lines(string(meminfo)) {
			if strings.HasPrefix(line, "MemAvailable:") {
				return strings.Join(strings.Fields(line)[1:], " ")
			}
		}
		return ""
	}
	t.Logf("attached after %v, worked for %v, detached after %v; available memory %s before, %s then; ksnoop used %d KiB",
		modified(t, mark("begin")).Sub(began), modified(t, mark("end")).Sub(modified(t, mark("begin"))), ended.Sub(modified(t, mark("end"))),
		free(before), free(memory), maxRSS(cmd))
	if n := strings.Count(out.String(), "TID/PID"); n != 1 {
		t.Errorf("%d sessions, one call fails", n)
	}
	if !regexp.MustCompile(`(?m)^! +\d+us \[-EINVAL]  array_map_alloc_check$`).MatchString(out.String()) {
		t.Errorf("the failing call is not shown")
	}
	if n := attachedTo(errs.String()); n < 40000 || strings.Contains(errs.String(), "not traced") {
		t.Errorf("%d functions are traced", n)
	}
}

// attachedTo returns how many functions "trace -v" says were attached to.
func attachedTo(errs string) (n int) {
	for _, m := range regexp.MustCompile(`(?m)^ksnoop: (\d+) functions .*: attached with `).FindAllStringSubmatch(errs, -1) {
		k, err := strconv.Atoi(m[1])
		if err == nil {
			n += k
		}
	}
	return n
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// maxRSS is the most memory that a process which has ended has used.
func maxRSS(cmd *exec.Cmd) int64 {
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss
	}
	return 0
}
