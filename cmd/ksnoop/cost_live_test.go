// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// costs are the calls whose price is measured: what a read(2) of one byte from
// /dev/zero, which calls vfs_read once, costs more while it is traced.
var costs = []struct {
	name, spec string
	args       []string
	// limit is the most instructions it may be; 0: no gate.
	limit float64
}{
	{name: "argument", spec: "vfs_read(count == 12345)", limit: 150},
	{name: "member", spec: "vfs_read(file->f_flags == 12345)", limit: 170},
	{name: "string", spec: `vfs_read(file->f_path.dentry->d_name.name == "no such name")`},
	{name: "return", spec: "vfs_read(return == -5)"},
	{name: "kept", spec: "vfs_read(file->f_flags, return == -5)", limit: 600},
	{name: "pid", spec: "vfs_read", args: []string{"-p", "1"}},
	{name: "comm", spec: "vfs_read", args: []string{"-n", "nobody"}},
	{name: "comm-glob", spec: "vfs_read", args: []string{"-n", "*body"}},
	{name: "comm-entry", spec: "vfs_read(count)", args: []string{"-n", "nobody"}},
	{name: "pid-entry", spec: "vfs_read(count)", args: []string{"-p", "1"}},
	{name: "uid", spec: "vfs_read", args: []string{"--uid", "1"}},
	{name: "family", spec: "vfs_read", args: []string{"-p", "2", "--follow"}},
	{name: "no-irq", spec: "vfs_read(file->f_flags == 12345)", args: []string{"--no-irq"}},
	{name: "session-comm", spec: "vfs_read", args: []string{"-e", "vfs_read", "-n", "nobody"}, limit: 450},
	{name: "session", spec: "vfs_read", args: []string{"-e", "vfs_read"}, limit: 1200},
	{name: "session-args", spec: "vfs_read", args: []string{"-e", "vfs_read", "-A"}, limit: 3000},
	{name: "session-outside", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read"}, limit: 420},
	{name: "session-outside-multi", spec: "vfs_read", args: []string{"-e", "vfs_write", "-a", "vfs_read", "--attach=session"}, limit: 420},
	{name: "kprobe-pid", spec: "vfs_read", args: []string{"-p", "1", "--attach=kprobe"}},
	{name: "kprobe-argument", spec: "vfs_read(count == 12345)", args: []string{"--attach=kprobe"}},
	{name: "kprobe-member", spec: "vfs_read(file->f_flags == 12345)", args: []string{"--attach=kprobe"}},
	{name: "kprobe-kept", spec: "vfs_read(file->f_flags, return == -5)", args: []string{"--attach=kprobe"}},
}

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

// BenchmarkLiveCost counts instructions, in a guest with an instruction clock;
// elsewhere its figures would be nanoseconds and its gates meaningless.
func BenchmarkLiveCost(b *testing.B) {
	guest.Require(b)
	if !guest.CountsInstructions() {
		b.Skip("needs a guest whose clock counts instructions: run `make bench`")
	}
	bare := measure(b)
	b.Logf("bare call: %.0f instructions", bare)
	for _, c := range costs {
		measured := false // whatever b.N is: the count is the same each time
		var extra float64
		b.Run(c.name, func(b *testing.B) {
			if !measured {
				start := startTrace
				if strings.HasPrefix(c.name, "session") {
					start = startSessions
				}
				trace := start(b, append(append([]string{}, c.args...), c.spec)...)
				extra = measure(b) - bare
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
