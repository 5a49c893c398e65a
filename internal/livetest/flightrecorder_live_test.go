// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveFlight: when the trigger's call happens, the flight recorder writes what came before it,
// as much as it has room for. All other calls are counted.
func TestLiveFlight(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	const made = 20_000
	out, errs, status := ksnoop(t, "trace", "--record", file, "--force", "--flight", "1M", "-c", "1", "--max-cpu", "off", "--ringbuf", "16M",
		"--trigger", `do_sys_openat2(ustr(filename) == "/nope", return < 0)`, "vfs_read(count == 33 || count == 34, count)", "--",
		"sh", "-c", fmt.Sprintf("workload read -size 33 -count %d >/dev/null; cat /nope 2>/dev/null; workload read -size 34 -count 5 >/dev/null", made))
	if out != "" || status != 0 || !strings.Contains(errs, " records written to "+file+"; the ") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	overwritten, lost := counted(t, errs, "records that made room for newer ones"), counted(t, errs, "records lost because the ring buffer was full")
	out, errs, status = replayed(t, file)
	kept := records(out, "workload", "vfs_read")
	t.Logf("%d calls: %d kept, %d made room, %d lost", made, kept, overwritten, lost)
	if status != 0 || kept == 0 || overwritten == 0 || kept+overwritten+lost != made || strings.Contains(out, "(size_t)34") {
		t.Errorf("status %d: %d kept, %d made room, %d lost of %d: %s", status, kept, overwritten, lost, made, errs)
	}
	blocks := blocksOf(out)
	if last := blocks[len(blocks)-1]; last[3] != "do_sys_openat2" || !strings.Contains(out, fmt.Sprintf("--- %d records that made room for newer ones ---\n", overwritten)) {
		t.Errorf("the last record is that of %s, %d made room; it begins with\n%.500s", last[3], overwritten, out)
	}
	if _, errs, status = replayed(t, file, "--expect", "0"); status != 3 || !strings.Contains(errs, fmt.Sprintf("ksnoop: --expect 0: there were %d\n", kept+1)) {
		t.Errorf("--expect 0: status %d: %s", status, errs)
	}
}

// TestLiveFlightSignal: SIGUSR1 writes what there is. What comes later is lost with ksnoop.
func TestLiveFlightSignal(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	script := `workload read -size 33 -count 5 >/dev/null
size=$(stat -c %s FILE)
while kill -USR1 $PPID && [ $(stat -c %s FILE) = $size ]; do sleep 0.1; done
workload read -size 34 -count 5 >/dev/null
sleep 2
kill -KILL $PPID`
	text, err := exec.Command("ksnoop", "trace", "--record", file, "--force", "--flight", "1M", "vfs_read(count == 33 || count == 34, count)", "--",
		"sh", "-c", strings.ReplaceAll(script, "FILE", file)).CombinedOutput()
	out, errs, status := replayed(t, file)
	if n := records(out, "workload", "vfs_read"); err == nil || n == 0 || n > 5 || strings.Contains(out, "(size_t)34") || status != exitFailed || !strings.HasSuffix(errs, "the recording was cut off\n") {
		t.Errorf("%v\n%s%d records, status %d: %s", err, text, n, status, errs)
	}
}

// TestLiveFlightEarly: SIGUSR1 does not end a flight recorder that is still attaching.
func TestLiveFlightEarly(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	cmd := exec.Command("ksnoop", "trace", "--record", file, "--flight", "1M", "vfs_read(count == 33, count)", "--", "workload", "read", "-size", "33", "-count", "3")
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	if out, errs, status := replayed(t, file); status != 0 || records(out, "workload", "vfs_read") != 3 {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// TestLiveExpect: the exit status says whether the kernel did what was expected.
func TestLiveExpect(t *testing.T) {
	guest.Require(t)
	for _, c := range []struct {
		args   []string
		work   string
		status int
	}{
		{[]string{"--expect", "0", "vfs_read(count == 33)"}, "workload read -size 33 -count 3 >/dev/null", 3},
		{[]string{"--expect", "3", "vfs_read(count == 33, return)"}, "workload read -size 33 -count 3 >/dev/null; exit 7", 7},
		{[]string{"--expect", "0", "-e", "do_sys_openat2", "-x", "ENOENT"}, "cat /nope 2>/dev/null; true", 3},
	} {
		args := append(append([]string{"trace"}, c.args...), "--", "sh", "-c", c.work)
		if out, errs, status := ksnoop(t, args...); status != c.status {
			t.Errorf("%v: status %d, want %d:\n%s%s", c.args, status, c.status, out, errs)
		}
	}
}

// TestLiveFlightSessions: sessions are written when a trigger is called, inside of one or anywhere.
// The session that the trigger's call is in is among them.
func TestLiveFlightSessions(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	// The sizes are taken before what is waited for can happen.
	const script = `for i in 1 2 3; do cat /init >/dev/null; done
written() { for i in $(seq 600); do [ $(stat -c %s FILE) != $1 ] && return; sleep 0.1; done; echo "nothing was written to the file of $1 bytes"; }
size=$(stat -c %s FILE)
cat /nope 2>/dev/null
written $size
cat /init >/dev/null
size=$(stat -c %s FILE)
dd if=/dev/zero of=/dev/null bs=77 count=3 2>/dev/null
written $size
kill -KILL $PPID`
	text, err := exec.Command("ksnoop", "trace", "--record", file, "--force", "--flight", "1M", "-S", "-s", "none", "-e", "do_sys_openat2(ustr(filename))",
		"--trigger", "path_openat(return == -ENOENT)", "--trigger", "vfs_read(count == 77)", "--", "sh", "-c", strings.ReplaceAll(script, "FILE", file)).CombinedOutput()
	out, errs, status := replayed(t, file)
	if err == nil || status != exitFailed || !strings.HasSuffix(errs, "the recording was cut off\n") {
		t.Errorf("%v\n%sstatus %d: %s", err, text, status, errs)
	}
	for what, n := range map[string]int{`"/init"`: 4, `"/nope"`: 1} {
		if got := strings.Count(out, what); got != n {
			t.Errorf("%d sessions of %s, want %d:\n%s\n%s", got, what, n, text, out)
		}
	}
	for _, want := range []string{`ksnoop: triggered by path_openat of cat, PID `, `ksnoop: triggered by vfs_read of dd, PID `} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
