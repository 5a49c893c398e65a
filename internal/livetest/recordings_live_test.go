// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// TestLiveReplayFollow: what is recorded is printed while ksnoop writes it, and all of it when
// the run has ended.
func TestLiveReplayFollow(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	writer := exec.Command("ksnoop", "trace", "--record", file, "--force", "vfs_read(count == 33 || count == 34, count)", "--",
		"sh", "-c", "workload read -size 33 -count 5 >/dev/null; read go; workload read -size 34 -count 5 >/dev/null")
	more, err := writer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(livetest.Patience(time.Minute)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() > 1000 { // the types are there
			break
		}
	}
	follower := exec.Command("ksnoop", "replay", "--compact", "--follow", file)
	follower.Stderr = os.Stderr
	pipe, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	// The first calls are there while the writer waits to be told to go on.
	var text []byte
	for strings.Count(string(text), "count = 33)\n") < 5 {
		part := make([]byte, 4096)
		n, err := pipe.Read(part)
		if text = append(text, part[:n]...); err != nil {
			t.Fatalf("%v after\n%s", err, text)
		}
	}
	if _, err := io.WriteString(more, "go\n"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(pipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Wait(), follower.Wait()); err != nil {
		t.Error(err)
	}
	whole, _, status := replayed(t, file, "--compact")
	if got := string(append(text, rest...)); got != whole || status != 0 || strings.Count(whole, "count = 34)\n") != 5 {
		t.Errorf("followed:\n%s\nreplayed, status %d:\n%s", got, status, whole)
	}
}

// TestLiveRotate: recordings of a directory are no larger than they are to be, the newest that
// have room are kept, and together they have the newest calls without a gap.
func TestLiveRotate(t *testing.T) {
	guest.Require(t)
	dir := filepath.Join(t.TempDir(), "recordings")
	const made, keep = 1200, 2
	_, errs, status := ksnoop(t, "trace", "--record", dir, "--rotate", "1M", "--keep", fmt.Sprint(keep), "--max-cpu", "off", "--ringbuf", "16M",
		"vfs_read(count == 4000, exit(buf(user(buf), 4000)))", "--", "sh", "-c", fmt.Sprintf("dd if=/dev/urandom of=/dev/null bs=4000 count=%d 2>/dev/null", made))
	m := regexp.MustCompile(`ksnoop: (\d+) recordings? made in \S+, (\d+) old ones? removed by --keep 2\n`).FindStringSubmatch(errs)
	files, err := filepath.Glob(filepath.Join(dir, "ksnoop-*.ks"))
	if err != nil || status != 0 || m == nil || len(files) < keep {
		t.Fatalf("status %d, %v: %q\n%s", status, err, files, errs)
	}
	if n, gone := atoi(t, m[1]), atoi(t, m[2]); n < 4 || n-gone != len(files) {
		t.Errorf("%s", m[0])
	}
	var size int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() > 1<<20 || info.Mode() != 0o600 {
			t.Fatalf("%s: %d bytes, mode %v, %v", file, info.Size(), info.Mode(), err)
		}
		size += info.Size()
	}
	if size > keep<<20 {
		t.Errorf("%d bytes are kept", size)
	}
	lost := counted(t, errs, "records lost because the ring buffer was full")
	slices.Reverse(files) // they may be named in any order
	out, errs, status := ksnoop(t, append([]string{"replay", "--compact"}, files...)...)
	lines := strings.Count(out, " vfs_read(")
	if status != 0 || lines < 200 || lines+lost >= made || strings.Contains(errs, "goes on in a recording") {
		t.Errorf("status %d, %d calls of %d, %d lost: %s", status, lines, made, lost, errs)
	}
	var last float64
	times := regexp.MustCompile(`(?m)^ *dd +\d+ +\d+ +(\d+\.\d+) vfs_read`).FindAllStringSubmatch(out, -1)
	if len(times) != lines {
		t.Errorf("%d of %d calls have a time", len(times), lines)
	}
	for _, at := range times {
		var now float64
		if _, err := fmt.Sscan(at[1], &now); err != nil || now < last {
			t.Errorf("%s follows %f", at[1], last)
		}
		last = now
	}
}

// TestLiveMerge: recordings of two hosts are printed by time, whatever order they are named in,
// and each change of the host is marked.
func TestLiveMerge(t *testing.T) {
	guest.Require(t)
	here, there := recordingFile(t), recordingFile(t)
	record := func(name string, file string, size int) {
		t.Helper()
		// Another host has another name, and was booted another time.
		script := fmt.Sprintf(`if [ %[1]s != here ]; then hostname %[1]s; echo 11111111-2222-3333-4444-555555555555 >/tmp/%[1]s
mount --bind /tmp/%[1]s /proc/sys/kernel/random/boot_id || exit 99; fi
exec ksnoop trace --record %[2]s --force --print --compact 'vfs_read(count == %[3]d, count)' -- sh -c 'workload read -size %[3]d -count 2 >/dev/null'`, name, file, size)
		if out, errs, status := printed(t, "unshare", "-m", "-u", "sh", "-c", script); status != 0 || strings.Count(out, " vfs_read(") != 2 {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
	}
	record("here", here, 33)
	record("web2", there, 34)
	out, errs, status := ksnoop(t, "replay", "--compact", there, here)
	want := regexp.MustCompile(`(?s)^[^\n]*\n\n--- on \S+, [-\d]+ [:.\d]+ ---\n([^\n]*count = 33\)\n){2}--- on web2, [-\d]+ [:.\d]+ ---\n([^\n]*count = 34\)\n){2}$`)
	if status != 0 || !want.MatchString(out) {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
	if out, _, status := ksnoop(t, "replay", "--compact", here, here); status != 0 || strings.Contains(out, "--- on") || strings.Count(out, "count = 33)\n") != 4 {
		t.Errorf("of one host, status %d:\n%s", status, out)
	}
}

// TestLiveColour: text has colours on a terminal, unless NO_COLOR is set, and none elsewhere.
func TestLiveColour(t *testing.T) {
	guest.Require(t)
	args := append([]string{"trace", "vfs_read(count == 33, file->f_flags, return)"}, quiet("read -size 33 -count 2")...)
	plain, errs, status := ksnoop(t, args...)
	if status != 0 || strings.Contains(plain, "\x1b") || records(plain, "workload", "vfs_read") == 0 {
		t.Errorf("piped, status %d: %s\n%q", status, errs, plain)
	}
	style := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, c := range []struct {
		env  string
		want bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}} {
		out := onTerminal(t, unix.Winsize{}, c.env, args...)
		if got := style.MatchString(out); got != c.want {
			t.Errorf("%s: colours %t on a terminal:\n%q", c.env, got, out)
		}
		out = style.ReplaceAllString(out, "")
		if strings.Contains(out, "\x1b") || records(strings.ReplaceAll(out, "\r\n", "\n"), "workload", "vfs_read") != records(plain, "workload", "vfs_read") {
			t.Errorf("%s: without its colours it is\n%q", c.env, out)
		}
	}
}

// onTerminal returns what ksnoop prints on a terminal of a size, 0 rows: it is not known.
func onTerminal(t *testing.T, size unix.Winsize, env string, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&out, master) // ends with EIO when nobody has the terminal open
	}()
	cmd := exec.Command("ksnoop", args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", env)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = tty, os.Stderr, &syscall.SysProcAttr{Setsid: true}
	err = cmd.Run()
	tty.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
