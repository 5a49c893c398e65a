// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// What trace printed is what replay prints, to the byte.
func TestLiveReplay(t *testing.T) {
	guest.Require(t)
	type replay struct {
		spec, work string
		join       bool
		want       int // blocks
	}
	inTurn(t, []replay{
		{"ip_send_skb", "udp-send -size 56 -count 3", false, 6},
		{"ip_send_skb(skb, skb->sk->sk_allocation == GFP_KERNEL, return == 0)", "udp-send -size 56 -count 2", false, 2},
		{"vfs_read(count == 33, file->f_flags, *file, buf(user(buf), 3))", "read -size 33 -count 3", false, 3},
		{"ep_loop_check_proc(depth, return)", "nested -depth 4", true, 6},
	}, func(t *testing.T, attach string, c replay) {
		file := recordingFile(t)
		args := []string{"trace", attach, "--record", file, "--force", "--print", c.spec}
		if c.join {
			args = append(args, "--join")
		}
		want, errs, status := ksnoop(t, append(args, quiet(c.work)...)...)
		if n := len(blocksOf(want)); status != 0 || n != c.want {
			t.Errorf("%s: status %d, %d blocks, want %d:\n%s%s", c.spec, status, n, c.want, want, errs)
		}
		args = []string{file}
		if c.join {
			args = append(args, "--join")
		}
		got, gotErrs, status := replayed(t, args...)
		if got != want || gotErrs != errs || status != 0 {
			t.Errorf("%s: replay, status %d:\n%s%s\ntrace:\n%s%s", c.spec, status, got, gotErrs, want, errs)
		}
	})
}

// A recording without --print prints nothing and has the same.
func TestLiveRecordOnly(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	args := append([]string{"trace", "--record", file, "--force", "vfs_read(count == 33)"}, quiet("read -size 33 -count 500")...)
	if out := traced(t, args...); out != "" {
		t.Errorf("printed\n%s", out)
	}
	out, errs, status := replayed(t, file)
	if n := records(out, "workload", "vfs_read"); n != 500 || errs != "" || status != 0 {
		t.Errorf("%d records of 500 calls, status %d: %s", n, status, errs)
	}
}

// What was recorded when ksnoop is killed can be replayed.
func TestLiveRecordKilled(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	var out bytes.Buffer
	cmd := exec.Command("ksnoop", "trace", "--record", file, "--print", "vfs_read(count == 33, count)", "--",
		"sh", "-c", "workload read -size 33 -count 5 >/dev/null; sleep 120")
	cmd.Stdout = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the command is killed with it
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := ""
	for deadline := time.Now().Add(livetest.Patience(time.Minute)); records(got, "workload", "vfs_read") < 5 && time.Now().Before(deadline); {
		time.Sleep(time.Second)
		got, _, _ = replayed(t, file)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // tells that it was killed
	got, errs, status := replayed(t, file)
	if got != out.String() || records(got, "workload", "vfs_read") != 5 {
		t.Errorf("replay:\n%s\ntrace:\n%s", got, &out)
	}
	if want := "ksnoop: " + file + ": after 5 records: the recording was cut off\n"; errs != want || status != exitFailed {
		t.Errorf("status %d, stderr %q, want %q", status, errs, want)
	}
}

// The kernel joins what is decided at return, by the stack pointer. Pairs that
// were found by their order must be the same ones.
func TestLiveJoin(t *testing.T) {
	guest.Require(t)
	depths := regexp.MustCompile(`depth = \(int\)\d+,\n\n +return`)
	methods(t, func(t *testing.T, attach string) {
		work := quiet("nested -depth 5")
		kernel := traced(t, append([]string{"trace", attach, "ep_loop_check_proc(depth, return >= 0)"}, work...)...)
		ours := traced(t, append([]string{"trace", attach, "--join", "ep_loop_check_proc(depth, return)"}, work...)...)
		a, b := depths.FindAllString(kernel, -1), depths.FindAllString(ours, -1)
		if len(a) < 2 || strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Errorf("the kernel's %q, ours %q", a, b)
		}
		out := traced(t, append([]string{"trace", attach, "--join", "vfs_read(count == 33, return)"}, quiet("threads -threads 8 -count 20 -size 33")...)...)
		if n := strings.Count(out, "        count = (size_t)33,\n\n        return = (ssize_t)33\n\n);\n"); n != 160 || records(out, "workload", "vfs_read") != 160 {
			t.Errorf("%d whole calls of 160:\n%s", n, out)
		}
	})
	// No thread comes back from here. Some kernels refuse fexit for that reason.
	spec := `do_group_exit(exit_code == 7 << 8, $comm == "workload", $duration)`
	out, _, status := ksnoop(t, append([]string{"trace", "--attach=kprobe", "--join", spec}, quiet("exit-group -threads 4 -for 50ms -code 7")...)...)
	if n := strings.Count(out, "/* had not returned by the end */"); n != 1 || records(out, "workload", "do_group_exit") != 1 || status != 7 {
		t.Errorf("%d calls of 1 that never return, status %d:\n%s", n, status, out)
	}
}
