// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// asProgram has the test program be ksnoop: some things are those of a process.
const asProgram = "KSNOOP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0) // it returns when it has held files for another process
	}
	os.Exit(m.Run())
}

// program returns a shell's command in which "$0" is ksnoop.
func program(t *testing.T, script string, args ...string) (c *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stderr = new(bytes.Buffer)
	c = exec.Command("sh", append([]string{"-c", script, self}, args...)...)
	c.Env, c.Stderr = append(os.Environ(), asProgram+"=1"), stderr
	return c, stderr
}

// TestQuit: Ctrl-\ ends ksnoop as SIGTERM does, without Go's own output. An interrupt ends it, and a
// shell sees the same status if a script's shell has had it ignore interrupts.
func TestQuit(t *testing.T) {
	for _, c := range []struct {
		script string
		signal unix.Signal
		status int // as a shell tells it
	}{
		{`exec "$0" replay "$1"`, unix.SIGQUIT, 128 + int(unix.SIGTERM)},
		{`exec "$0" replay "$1"`, unix.SIGINT, 130},
		{`trap '' INT; exec "$0" replay "$1"`, unix.SIGINT, 130},
	} {
		quit(t, c.script, c.signal, c.status)
	}
}

// quit sends a signal to a script that replays a FIFO.
func quit(t *testing.T, script string, s unix.Signal, want int) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c, stderr := program(t, script, fifo)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// It has got as far as reading when the other end can be opened.
	var file *os.File
	for end := time.Now().Add(livetest.Patience(20 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if file, err = os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			break
		}
		if !errors.Is(err, unix.ENXIO) || time.Now().After(end) {
			t.Fatal(errors.Join(err, c.Process.Kill(), c.Wait()))
		}
	}
	defer file.Close()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	status := c.ProcessState.ExitCode()
	if by := c.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal(); status < 0 {
		status = 128 + int(by)
	}
	if status != want || stderr.Len() > 0 {
		t.Errorf("%s, %v: %v, want status %d; stderr:\n%.500s", script, s, err, want, stderr)
	}
}

// TestReaderGone: where nobody reads any more, the program ends by itself, in order and without a
// word, with the status that a shell gives to what SIGPIPE ends.
func TestReaderGone(t *testing.T) {
	for _, args := range []string{`info --btf "$1" vfs_read`, `trace --help`, `replay ../../testdata/calls.ks`,
		`replay ../../testdata/calls.ks ../../testdata/calls.ks`, `replay --info ../../testdata/calls.ks`} {
		c, stderr := program(t, `read start; exec "$0" `+args, typesFile(t))
		start, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		stdout.Close()
		start.Close()
		if err := c.Wait(); c.ProcessState.ExitCode() != 141 || stderr.Len() > 0 {
			t.Errorf("%s: %v, %q", args, err, stderr)
		}
	}
}

// TestStandardOutput: what cannot be printed is not passed over in silence.
func TestStandardOutput(t *testing.T) {
	types := typesFile(t)
	calls, sessions := hostileRecording(t, "harmless", false), hostileRecording(t, "harmless", true)
	for _, args := range [][]string{
		{"info", "--btf", types, "vfs_read"},
		{"--explain", "--btf", types, "vfs_read"},
		{"--dry-run", "--btf", types, "-e", "vfs_read"},
		{"replay", calls}, {"replay", sessions},
		{"--help"}, {"help", "trace"}, {"--version"}, {"--config-help"},
	} {
		const full, lost = "no space left on device\n", "standard output is closed, or /dev/null that was opened for reading as well; to have nothing printed: >/dev/null\n"
		for _, to := range []struct {
			redirect, says string
			status         int
		}{{">/dev/full", full, exitFailed}, {">&-", lost, exitFailed}, {">/dev/null", "", 0}} {
			c, stderr := program(t, `exec "$0" "$@" `+to.redirect, args...)
			_ = c.Run()
			if status, says := c.ProcessState.ExitCode(), stderr.String(); status != to.status || strings.Count(says, "\n") != strings.Count(to.says, "\n") || !strings.HasSuffix(says, to.says) {
				t.Errorf("%q %s: status %d, want %d; stderr %q", args, to.redirect, status, to.status, says)
			}
		}
	}
	// Nothing is lost where nothing is printed.
	c, stderr := program(t, `exec "$0" info >&-`)
	if err := c.Run(); c.ProcessState.ExitCode() != exitUsage || strings.Contains(stderr.String(), "standard output") {
		t.Errorf("%v, %q", err, stderr)
	}
	c, stderr = program(t, `exec "$0" "$@" >&-`, "--explain", "--btf", types, "--record", "/dev/stdout", "vfs_read")
	if err := c.Run(); c.ProcessState.ExitCode() != exitFailed || stderr.String() != "ksnoop: --record /dev/stdout: standard output is closed, or it is /dev/null\n" {
		t.Errorf("%v, %q", err, stderr)
	}
}

// TestReplayStdin: a recording that comes through a pipe is that of the file.
func TestReplayStdin(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		name := hostileRecording(t, "harmless", sessions)
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c, stderr := program(t, `cat | "$0" replay -`)
		var stdout bytes.Buffer
		c.Stdin, c.Stdout = file, &stdout
		err = c.Run()
		if want, _, status := ran("replay", name); err != nil || stdout.String() != want || want == "" || status != 0 {
			t.Errorf("%v, %s:\n%s\nwant (status %d)\n%s", err, stderr, stdout.String(), status, want)
		}
		c, stderr = program(t, `"$0" replay - </dev/null`)
		if _ = c.Run(); c.ProcessState.ExitCode() != exitFailed || !strings.HasPrefix(stderr.String(), "ksnoop: standard input: ") {
			t.Errorf("nothing on stdin: status %d, %q", c.ProcessState.ExitCode(), stderr)
		}
	}
}

// TestDoubledSignal: timeout(1) sends a signal to the process and once more to its group. That is no
// second signal, which ends ksnoop at once: it says what it has not sent.
func TestDoubledSignal(t *testing.T) {
	c, _ := program(t, `exec "$0" replay ../../testdata/calls.ks --otlp http://127.0.0.1:1`)
	c.Stderr = nil
	stderr, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "it is tried again") {
	}
	for range 2 {
		if err := c.Process.Signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(doubled / 20)
	}
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}
	if err := c.Wait(); c.ProcessState.ExitCode() < 0 || !strings.Contains(rest.String(), "did not arrive") {
		t.Errorf("%v, said\n%s", err, rest.String())
	}
}
