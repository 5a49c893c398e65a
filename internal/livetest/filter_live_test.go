// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

func TestLiveFilters(t *testing.T) {
	guest.Require(t)
	work := []string{"--", "workload", "read", "-count", "3", "-size", "19"}
	for i, c := range []struct {
		args string
		want int
	}{
		{"", 3},
		{"-n workload", 3},
		{"-n workloa", 0},
		{"-n workload2", 0},
		{"-n nobody -n w*d", 3},
		{"-n w*d -N *load", 0},
		{"-N workload", 0},
		{"-N init -N sh", 3},
		{"-P 1", 3},
		{"-t 1", 0},
		{"--uid root", 3},
		{"--uid 1,2", 0},
		{"-c 2", 2},
		{"-n workload --no-irq", 3},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		out := traced(t, append(append([]string{"trace", "vfs_read(count == 19)"}, strings.Fields(c.args)...), work...)...)
		if n := records(out, "workload", "vfs_read"); n != c.want {
			t.Errorf("%q: %d records, want %d:\n%s", c.args, n, c.want, out)
		}
	}
	out := traced(t, "trace", "vfs_read(count == 19)", "--", "workload", "fork", "-children", "3", "read", "-count", "2", "-size", "19")
	if n := records(out, "exe", "vfs_read"); n != 6 { // they run /proc/self/exe
		t.Errorf("%d records of 3 children's 2 calls:\n%s", n, out)
	}
}

// TestLiveFilterPairs: a call's return is printed if its entry was, whatever
// the call does to the task's name. begin_new_exec gives it a new one.
func TestLiveFilterPairs(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		for comm, want := range map[string][2]int{"workload": {1, 1}, "second": {0, 0}} {
			out := traced(t, "trace", attach, "begin_new_exec", "-n", comm, "--", "workload", "exec", "-comm", "second", "read")
			entries, returns := strings.Count(out, "bprm = "), strings.Count(out, "return = ")
			if got := [2]int{entries, returns}; got != want {
				t.Errorf("-n %s: %d entries and returns, want %d:\n%s", comm, got, want, out)
			}
		}
	})
}

// TestLiveNoIRQ: what is sent over loopback is received by an interrupt on the
// sender's back, before the call that sends it returns.
func TestLiveNoIRQ(t *testing.T) {
	guest.Require(t)
	type irq struct {
		spec, option string
		want         int
	}
	inTurn(t, []irq{
		{"ip_rcv(skb->len == 84)", "", 3}, {"ip_rcv(skb->len == 84)", "--no-irq", 0},
		{"ip_send_skb(skb->len == 84)", "--no-irq", 3},
	}, func(t *testing.T, attach string, c irq) {
		args := append([]string{"trace", attach, c.spec}, strings.Fields(c.option)...)
		out := traced(t, append(args, "--", "workload", "udp-send", "-size", "56", "-count", "3")...)
		name, _, _ := strings.Cut(c.spec, "(")
		if n := records(out, "workload", name); n != c.want {
			t.Errorf("%s %s: %d records, want %d:\n%s", c.spec, c.option, n, c.want, out)
		}
	})
}

// TestLiveFollow: a shell's children are traced with --follow only, and all of them to
// their end: when a process that ends closes its files, its threads have ended already.
func TestLiveFollow(t *testing.T) {
	guest.Require(t)
	type counts struct{ reads, ends int } // of workloads; of the shell
	for option, want := range map[string]counts{"--follow": {5, 1}, "--no-irq": {0, 1}} {
		h := hold(t, "(workload read -count 2 -size 31; workload read -count 3 -size 31); true", nil)
		trace := startTrace(t, option, "-p", fmt.Sprint(h.cmd.Process.Pid), "vfs_read(count == 31)", "exit_files()")
		if err := exec.Command("workload", "read", "-count", "2", "-size", "31").Run(); err != nil {
			t.Fatal(err)
		}
		h.run(t)
		out, status := trace.wait(t)
		got := counts{records(out, "workload", "vfs_read"), records(out, "sh", "exit_files")}
		if got != want || status != 0 {
			t.Errorf("%s: %+v, status %d, want %+v and 0:\n%s", option, got, status, want, out)
		}
	}
}

// TestLiveFollowSamePID: a process that gets the PID of an earlier one at once is followed to its end, although the kernel tells of the
// earlier one's end later.
func TestLiveFollowSamePID(t *testing.T) {
	guest.Require(t)
	const processes, calls = 20, 7
	out := traced(t, "trace", "vfs_read(count == 33)", "--", "sh", "-c", fmt.Sprintf(`last=/proc/sys/kernel/ns_last_pid; p=$(($(cat $last) + 100))
for i in $(seq %d); do echo $p > $last; workload read -count %d -size 33 > /dev/null; done`, processes, calls))
	pids := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^ *workload +(\d+) .* vfs_read\(`).FindAllStringSubmatch(out, -1) {
		pids[m[1]]++
	}
	if n, most := records(out, "workload", "vfs_read"), slices.Max(append(slices.Collect(maps.Values(pids)), 0)); n != processes*calls || most < n/2 {
		t.Errorf("%d calls of %d, by PID %v:\n%s", n, processes*calls, pids, out)
	}
}

// TestLiveProcesses: calls of two processes, until both have ended, and of none
// that is denied; of a user; of a control group.
func TestLiveProcesses(t *testing.T) {
	guest.Require(t)
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	shells := []*held{hold(t, "exec workload read -count 1 -size 37", nil), hold(t, "exec workload read -count 2 -size 37", nil),
		hold(t, "exec workload read -count 4 -size 37", nobody)}
	pid := func(i int) string { return fmt.Sprint(shells[i].cmd.Process.Pid) }
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(root, unix.MNT_DETACH) }()
	if err := os.MkdirAll(root+"/a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(root + "/a") // unmounting leaves them
	defer os.Remove(root + "/a/b")
	if err := os.WriteFile(root+"/a/b/cgroup.procs", []byte(pid(1)), 0); err != nil {
		t.Fatal(err)
	}
	traces := []struct {
		args []string
		want int
		ends bool // by itself
		run  *running
	}{
		{args: []string{"-p", pid(0), "-p", pid(2)}, want: 5, ends: true},
		{args: []string{"-p", pid(0) + "," + pid(1), "-P", pid(1)}, want: 1, ends: true},
		{args: []string{"--uid", "65534"}, want: 4},
		{args: []string{"-t", pid(1)}, want: 2, ends: true},
		{args: []string{"--cgroup", "/a"}, want: 2}, // as events have it
	}
	for i := range traces {
		traces[i].run = startTrace(t, append(traces[i].args, "vfs_read(count == 37)")...)
	}
	for _, h := range shells {
		h.run(t)
	}
	for _, trace := range traces {
		if !trace.ends {
			if err := trace.run.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		out, status := trace.run.wait(t)
		if n := records(out, "workload", "vfs_read"); n != trace.want || status != 0 {
			t.Errorf("%q: %d records, status %d, want %d and 0:\n%s", trace.args, n, status, trace.want, out)
		}
	}
}

// TestLiveNotItself: ksnoop prints, which are calls of vfs_write, and shows none.
func TestLiveNotItself(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		for _, spec := range []string{"vfs_write", "vfs_write(return >= 0)"} {
			trace := startTrace(t, attach, spec)
			if err := exec.Command("workload", "fork", "-children", "2", "read").Run(); err != nil {
				t.Fatal(err)
			}
			if err := trace.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			out, _ := trace.wait(t)
			if records(out, "exe", "vfs_write") == 0 || records(out, "ksnoop", "vfs_write") != 0 {
				t.Errorf("%s: calls of ksnoop, or none of others:\n%s", spec, out)
			}
		}
	})
}

// TestLiveInterruptsOfItself: what an interrupt calls while ksnoop runs is traced, what ksnoop calls is not.
func TestLiveInterruptsOfItself(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		trace := startTrace(t, attach, "hrtimer_interrupt(count()[$comm])", "hrtimer_interrupt($cpu)", "vfs_write(count()[str(buf)])", "vfs_read(hist($duration)[$stack])", "vfs_write(count()[$comm])", "vfs_read($comm)")
		ctx, stop := context.WithTimeout(t.Context(), livetest.Patience(3*time.Second))
		defer stop()
		_ = exec.CommandContext(ctx, "sh", "-c", "while :; do cat /proc/self/stat; done").Run() // until ctx ends
		if err := trace.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		out, status := trace.wait(t)
		_, tables, _ := strings.Cut(out, "hrtimer_interrupt: count()")
		ticks, writes, ok := strings.Cut(tables, "vfs_write: count()")
		if !strings.Contains(ticks, `"ksnoop"`) || records(out, "ksnoop", "hrtimer_interrupt") == 0 {
			t.Errorf("no interrupt while ksnoop runs; status %d:\n%s", status, tables)
		}
		none, errs, status := ksnoop(t, "trace", attach, "--no-irq", "hrtimer_interrupt(count())", "vfs_write(count())", "--", "workload", "read", "-count", "20000")
		if _, ticks, _ := strings.Cut(none, "hrtimer_interrupt: "); !strings.Contains(ticks, "no calls") || status != 0 {
			t.Errorf("interrupts, with --no-irq; status %d:\n%s%s", status, none, errs)
		}
		if !ok || !strings.Contains(writes, `"cat"`) || strings.Contains(writes, `"ksnoop"`) || records(out, "ksnoop", "vfs_read") != 0 {
			t.Errorf("calls of ksnoop, or none of others; status %d:\n%s", status, tables)
		}
	})
}
