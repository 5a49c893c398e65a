// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// costs are the calls whose price is measured: what a read(2) of one byte from
// /dev/zero, which calls vfs_read once, costs more while it is traced.
var costs = []struct {
	name, spec string
	args       []string
	// beside is what another process does meanwhile.
	beside string
	// limit is the most instructions it may be; 0: no gate. newer is the same where
	// the kernel has fsession and tracing_multi (Linux 7.3), if it is not 0.
	limit, newer float64
}{
	{name: "argument", spec: "vfs_read(count == 12345)", limit: 144, newer: 126},
	{name: "member", spec: "vfs_read(file->f_flags == 12345)", limit: 159, newer: 141},
	{name: "string", spec: `vfs_read(file->f_path.dentry->d_name.name == "no such name")`},
	{name: "return", spec: "vfs_read(return == -5)"},
	{name: "kept", spec: "vfs_read(file->f_flags, return == -5)", limit: 385, newer: 326},
	{name: "kept-dropped", spec: "vfs_read(file->f_flags == 12345, return == -5)"},
	{name: "duration", spec: "vfs_read($duration > 1h)", limit: 475, newer: 422},
	{name: "added-count", spec: "vfs_read(count())", limit: 152, newer: 134},
	{name: "added-comm", spec: "vfs_read(count()[$comm])", limit: 214, newer: 195},
	{name: "added-hist", spec: "vfs_read(hist(count))", limit: 162, newer: 144},
	{name: "added-member", spec: "vfs_read(sum(count)[file->f_flags])", limit: 200, newer: 182},
	{name: "added-duration", spec: "vfs_read(hist($duration))", limit: 481, newer: 427},
	{name: "added-stack", spec: "vfs_read(count()[$stack])", limit: 5065, newer: 5475},
	{name: "pid", spec: "vfs_read", args: []string{"-p", "1"}},
	{name: "comm", spec: "vfs_read", args: []string{"-n", "nobody"}},
	{name: "comm-glob", spec: "vfs_read", args: []string{"-n", "*body"}},
	{name: "comm-entry", spec: "vfs_read(count)", args: []string{"-n", "nobody"}},
	{name: "pid-entry", spec: "vfs_read(count)", args: []string{"-p", "1"}},
	{name: "uid", spec: "vfs_read", args: []string{"--uid", "1"}},
	{name: "family", spec: "vfs_read", args: []string{"-p", "2", "--follow"}},
	{name: "no-irq", spec: "vfs_read(file->f_flags == 12345)", args: []string{"--no-irq"}},
	{name: "session-comm", spec: "vfs_read", args: []string{"-e", "vfs_read", "-n", "nobody"}, limit: 441, newer: 380},
	{name: "session", spec: "vfs_read", args: []string{"-e", "vfs_read"}, limit: 1151},
	{name: "session-owner", spec: "vfs_read", args: []string{"-e", "vfs_read", "--record", "/dev/null"}, limit: 1200},
	{name: "session-off-cpu", spec: "vfs_read", args: []string{"-e", "vfs_read", "--summary"}, limit: 1340},
	{name: "session-args", spec: "vfs_read", args: []string{"-e", "vfs_read", "-A"}, limit: 2107},
	{name: "session-outside", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read"}, limit: 329, newer: 291},
	{name: "session-outside-other", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read"}, beside: blockedWriter, limit: 530, newer: 480},
	{name: "session-outside-multi", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read", "--attach=session"}, limit: 420, newer: 480},
	{name: "session-outside-trampolines", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read", "--attach=tracing_multi"}, newer: 298},
	{name: "kprobe-pid", spec: "vfs_read", args: []string{"-p", "1", "--attach=kprobe"}},
	{name: "kprobe-argument", spec: "vfs_read(count == 12345)", args: []string{"--attach=kprobe"}},
	{name: "kprobe-member", spec: "vfs_read(file->f_flags == 12345)", args: []string{"--attach=kprobe"}},
	{name: "kprobe-kept", spec: "vfs_read(file->f_flags, return == -5)", args: []string{"--attach=kprobe"}},
}

// blockedWriter has a session of vfs_write open all the time: nobody reads the pipe.
const blockedWriter = "yes | sleep 1000"

// perCall matches what the workload's loop has measured: the minimum is what
// repeats, since nothing but interrupts makes a batch longer.
var perCall = regexp.MustCompile(`min=([0-9.]+)`)

func measure(b *testing.B) float64 {
	b.Helper()
	out, err := exec.Command("workload", "loop").CombinedOutput()
	m := perCall.FindSubmatch(out)
	if err != nil || m == nil {
		b.Fatalf("workload loop: %v: %s", err, out)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// beside lets a shell do something until stop is called.
func beside(b *testing.B, script string) (stop func()) {
	b.Helper()
	if script == "" {
		return func() {}
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until it blocks: a pipe holds 64 KiB
	return func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
}

// settled measures the call until it costs the same twice: Linux 7.3 executes four
// times as much in the first seconds after boot, and ksnoop, which has only one CPU to
// share, goes on reading symbols for a while after it has attached.
func settled(b *testing.B) float64 {
	b.Helper()
	last := measure(b)
	for range 20 {
		time.Sleep(time.Second)
		next := measure(b)
		if next == last {
			break
		}
		last = next
	}
	return last
}

// BenchmarkLiveCost counts instructions, in a guest with an instruction clock;
// elsewhere its figures would be nanoseconds and its gates meaningless.
func BenchmarkLiveCost(b *testing.B) {
	guest.Require(b)
	if !guest.CountsInstructions() {
		b.Skip("needs a guest whose clock counts instructions: run `make bench`")
	}
	newer := attach.CapTracingMulti.Probe() == nil
	bare := settled(b)
	b.Logf("bare call: %.0f instructions", bare)
	for _, c := range costs {
		if c.newer != 0 && newer {
			c.limit = c.newer
		}
		if !newer && slices.Contains(c.args, "--attach=tracing_multi") {
			continue // there is none to measure
		}
		measured := false // whatever b.N is: the count is the same each time
		var extra float64
		b.Run(c.name, func(b *testing.B) {
			if !measured {
				start := startTrace
				if strings.HasPrefix(c.name, "session") || strings.HasPrefix(c.name, "added") { // which have no header
					start = startSessions
				}
				trace := start(b, append(append([]string{"--max-cpu=off"}, c.args...), c.spec)...)
				stop := beside(b, c.beside)
				extra = settled(b) - bare
				stop()
				if err := trace.cmd.Process.Signal(os.Interrupt); err != nil {
					b.Fatal(err)
				}
				trace.wait(b)
				measured = true
			}
			b.ReportMetric(extra, "insns/call")
			b.ReportMetric(0, "ns/op")
			if c.limit != 0 && extra > c.limit {
				b.Errorf("%s %q: %.0f instructions more than the bare call, the limit is %.0f", c.spec, c.args, extra, c.limit)
			}
		})
	}
}
