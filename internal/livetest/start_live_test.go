// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// uptime reads the seconds since boot, as /proc/uptime has them first.
func uptime(t testing.TB, text []byte) float64 {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if s, err := strconv.ParseFloat(first, 64); err == nil && strings.Contains(first, ".") {
			return s
		}
	}
	t.Fatalf("no uptime:\n%s", text)
	return 0
}

// BenchmarkLiveStart measures how long it takes from exec until a function is
// traced: both tools run a command then, which tells the time. With the
// instruction clock the seconds are those of a CPU that executes an instruction
// in a nanosecond; that a guest translates code that runs once, of which
// bpftrace has much, does not count then.
func BenchmarkLiveStart(b *testing.B) {
	guest.Require(b)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"ksnoop", []string{"ksnoop", "trace", "vfs_read(count == 12345)", "--", "cat", "/proc/uptime"}},
		{"bpftrace", []string{"bpftrace", "-e", "kfunc:vfs_read /args->count == 12345/ { @ = count(); }", "-c", "/bin/cat /proc/uptime"}},
	} {
		if _, err := exec.LookPath(c.args[0]); err != nil {
			b.Logf("not %s: it is not in the guest; see testrun -with", c.name)
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				before, err := os.ReadFile("/proc/uptime")
				if err != nil {
					b.Fatal(err)
				}
				out, err := exec.Command(c.args[0], c.args[1:]...).Output()
				if err != nil {
					b.Fatalf("%s: %v", c.name, err)
				}
				b.ReportMetric(uptime(b, out)-uptime(b, before), "s/attached")
			}
		})
	}
}

// BenchmarkLiveStop measures how long it takes from Ctrl-C until a tool has ended
// and nothing is attached any more.
func BenchmarkLiveStop(b *testing.B) {
	guest.Require(b)
	for _, c := range []struct {
		name  string
		start func(testing.TB, ...string) *running
		args  []string
	}{
		{"one function", startTrace, []string{"vfs_read(count == 12345, return == 3)"}},
		{"one function/bpftrace", startBpftrace, []string{"kfunc:vfs_read, kretfunc:vfs_read { @ = count(); }"}},
		{"some by fentry", startTrace, []string{"--attach=fentry", "vfs_r*(return == 12345)"}},
		{"some by fentry/bpftrace", startBpftrace, []string{"kretfunc:vfs_r* { @ = count(); }"}},
		{"session of one", startSessions, []string{"-e", "vfs_open"}},
		{"session of many", startSessions, []string{"-e", "*sys_bpf", "-a", "*bpf*"}},
		{"session of many/bpftrace", startBpftrace, []string{"kprobe:*bpf* { @ = count(); } kretprobe:*bpf* { @ = count(); }"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r := c.start(b, c.args...)
				time.Sleep(300 * time.Millisecond) // what attaching has put off is done then
				b.StartTimer()
				begin := time.Now()
				if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
					b.Fatal(err)
				}
				r.wait(b)
				b.ReportMetric(time.Since(begin).Seconds(), "s/stop")
			}
		})
	}
}

// startBpftrace is startTrace for bpftrace, of which an interval tells when it has
// attached all.
func startBpftrace(t testing.TB, args ...string) *running {
	t.Helper()
	if _, err := exec.LookPath("bpftrace"); err != nil {
		t.Skip("bpftrace is not in the guest; see testrun -with")
	}
	script := strings.Join(args, " ") + ` interval:ms:200 { printf("attached\n"); }`
	r := &running{cmd: exec.Command("bpftrace", "-e", script), eof: make(chan error, 1)}
	pipe, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && lines.Text() != "attached" {
		t.Log(lines.Text())
	}
	go func() {
		_, err := r.out.ReadFrom(pipe)
		r.eof <- err
	}()
	return r
}
