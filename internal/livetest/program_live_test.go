// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// How live tests run ksnoop, and what they read in what it prints.

// The exit statuses that ksnoop has for failures: at run time, of the command line.
const exitFailed, exitUsage = 1, 2

// ksnoop runs the program as a user would and returns what it printed.
func ksnoop(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return printed(t, "ksnoop", args...)
}

// skipped matches what ksnoop prints when the kernel has not run all programs: see
// docs/losses.md. On kernels that preempt programs it may happen at any time.
var skipped = regexp.MustCompile(`(?m)^ksnoop: ([1-9]\d*) calls? or returns? not seen because the kernel (?:skips tracing programs|has no room) .*\n`)

// printed runs a program that is ksnoop, or that becomes it, and returns what it
// printed. A run in which the kernel has skipped programs tells nothing about
// what the test is after: there is another one, but not for ever. Nor does one that --max-cpu has paused, as it
// does on a slow machine: there is another one without.
func printed(t *testing.T, name string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	for range 12 {
		stdout, stderr, status = printedOnce(t, name, args...)
		again := args
		switch {
		case skipped.MatchString(stderr) && preempts(t):
		case name == "ksnoop" && args[0] == "trace" && pausedTime.MatchString(stderr) && !slices.ContainsFunc(args, isMaxCPU):
			again = slices.Insert(slices.Clone(args), 1, "--max-cpu=off")
		default:
			return stdout, stderr, status
		}
		t.Logf("%s %q: %s", name, args, stderr)
		if i := slices.Index(again, "--record"); i > 0 && !slices.Contains(again, "--force") && !slices.Contains(again, "--rotate") {
			again = slices.Insert(slices.Clone(again), i, "--force") // there is one by now
		}
		args = again
	}
	return stdout, stderr, status
}

func isMaxCPU(arg string) bool { return strings.HasPrefix(arg, "--max-cpu") }

// preempts reports whether the kernel preempts itself, and so programs. One whose mode cannot
// be chosen (without CONFIG_PREEMPT_DYNAMIC, as Debian's on arm64) has no such file: init/Makefile
// puts PREEMPT into what uname tells.
func preempts(t *testing.T) bool {
	t.Helper()
	mode, err := os.ReadFile("/sys/kernel/debug/sched/preempt")
	if errors.Is(err, fs.ErrNotExist) {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			t.Fatal(err)
		}
		version := unix.ByteSliceToString(u.Version[:])
		return strings.Contains(version, " PREEMPT") && !strings.Contains(version, " PREEMPT_DYNAMIC")
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(mode), "(full)") || strings.Contains(string(mode), "(lazy)")
}

func printedOnce(t *testing.T, name string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// traced is ksnoop where all must go well. It returns stdout.
func traced(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := ksnoop(t, args...)
	if status != 0 || stderr != "" {
		t.Fatalf("ksnoop %q: status %d, stderr:\n%s", args, status, stderr)
	}
	return stdout
}

// A running is a ksnoop in the background that has attached.
type running struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	errs bytes.Buffer // complete after wait; of startSessions, behind what says that they are traced
	eof  chan error
}

// startTrace starts ksnoop and waits until it has printed its header, which it
// does when everything is attached.
func startTrace(t testing.TB, args ...string) *running {
	t.Helper()
	return startTracer(t, exec.Command("ksnoop", append([]string{"trace"}, args...)...))
}

// startTracer is startTrace for a command that becomes ksnoop, or runs it.
func startTracer(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, eof: make(chan error, 1)}
	r.cmd.Stderr = io.MultiWriter(os.Stderr, &r.errs)
	pipe, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 1)
	if _, err := io.ReadFull(pipe, header); err != nil {
		t.Fatal(err)
	}
	r.out.Write(header)
	go func() {
		_, err := r.out.ReadFrom(pipe)
		r.eof <- err
	}()
	return r
}

// startSessions is startTrace for sessions, which have no header: that they are
// traced is said on the standard error.
func startSessions(t testing.TB, args ...string) *running {
	t.Helper()
	return startSessionTracer(t, exec.Command("ksnoop", append([]string{"trace"}, args...)...))
}

// startSessionTracer is startSessions for a command that becomes ksnoop, or runs it.
func startSessionTracer(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, eof: make(chan error, 1)}
	r.cmd.Stdout = &r.out
	pipe, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Receiving data") {
		t.Log(lines.Text())
	}
	go func() {
		_, err := io.Copy(io.MultiWriter(os.Stderr, &r.errs), pipe)
		r.eof <- err
	}()
	return r
}

func (r *running) wait(t testing.TB) (out string, status int) {
	t.Helper()
	select {
	case err := <-r.eof:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(livetest.Patience(time.Minute)):
		t.Fatal("ksnoop does not end")
	}
	if err := r.cmd.Wait(); err != nil && r.cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return r.out.String(), r.cmd.ProcessState.ExitCode()
}

// replayed replays a recording, which is root's alone at first, as a user without
// any privileges.
func replayed(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	path, err := exec.LookPath("ksnoop")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(args[0]); err == nil {
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", args[0], info.Mode())
		}
		if err := os.Chown(args[0], 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, append([]string{"replay"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// recordingFile is in a directory that anybody may read. What is recorded there must meet the
// schema when it is replayed as JSON.
func recordingFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ksnoop-recording-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(holdRecordings(dir), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "recording")
}

// block matches a record's first line: task, PID and function.
var block = regexp.MustCompile(`(?m)^ *(\S+) +(\d+) +\d+ +\d+\.\d{6} ([\w.:+]+)\($`)

// blocksOf returns the matches of block. Only lines that end like one are matched: in megabytes of output an expression takes seconds.
func blocksOf(out string) (matches [][]string) {
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(strings.TrimSuffix(line, "\n"), "(") {
			continue
		}
		if m := block.FindStringSubmatch(line); m != nil {
			matches = append(matches, m)
		}
	}
	return matches
}

// records counts the records of a function made by tasks of a name.
func records(out, comm, function string) int {
	n := 0
	for _, m := range blocksOf(out) {
		if m[1] == comm && m[3] == function {
			n++
		}
	}
	return n
}

// bodies returns what lines stand between the heads and the ends of a
// function's records of tasks called workload.
func bodies(out, function string) []string { return bodiesOf(out, "workload", function) }

// bodiesOf is bodies for tasks of another name.
func bodiesOf(out, comm, function string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?ms)^ *`+comm+` +[\d ]+\.\d{6} `+regexp.QuoteMeta(function)+`\($(.*?)^\);$`).FindAllStringSubmatch(out, -1) {
		found = append(found, m[1])
	}
	return found
}

// mark matches a mark of lost records in the output, summary the line that says
// how many there were in all.
var (
	mark    = regexp.MustCompile(`(?m)^--- (\d+) .* ---$`)
	summary = regexp.MustCompile(`(?m)^ksnoop: (\d+) (?:records?|calls?) (?:lost|not seen|left out)`)
)

func sum(t *testing.T, re *regexp.Regexp, text string) int {
	t.Helper()
	total := 0
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// counted is the number that --stats says of something.
func counted(t *testing.T, errs, what string) int {
	t.Helper()
	what = regexp.MustCompile(`\b(call|record|return|session|stack|time)s\b`).ReplaceAllString(what, "${1}s?") // one, or many
	return sum(t, regexp.MustCompile(`(?m)^ksnoop: (\d+) `+what), errs)
}
