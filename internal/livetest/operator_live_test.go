// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// idle is what nobody calls.
const idle = "vfs_read(count == 987654)"

// TestLiveOperator does what operators do, on purpose or not. What ksnoop says and with which
// status it ends is as docs/safety.md has it, and nothing is left behind.
func TestLiveOperator(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("takes many minutes: run `make soak`")
	}
	attachMethods() // whose trials are not to count
	settles(t, "what was tried to find out the methods")
	for _, deed := range []struct {
		name string
		do   func(t *testing.T) string // what it has come to
	}{
		{"shell", inShell},
		{"signals", endedBySignals},
		{"reader blocked", blockedReader},
		{"PID namespace", inNamespace},
		{"kill -9, then another", killedBefore},
		{"Ctrl-C while attaching", interruptAttaching},
	} {
		t.Run(deed.name, func(t *testing.T) {
			complaints(t)
			said := deed.do(t)
			settles(t, deed.name)
			if bad := complaints(t); bad != "" {
				t.Errorf("the kernel says:\n%s", bad)
			}
			t.Logf("soak: operator: %s: %s", deed.name, said)
		})
	}
}

// oneLine is a message on one line.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return text
}

// inShell runs what ends by itself.
func inShell(t *testing.T) (said string) {
	const work = "-- workload read -count 3 -size 37"
	for _, c := range []struct {
		script  string
		status  int
		says    string // on stderr
		records int    // on stdout
	}{
		{"ksnoop trace 'vfs_read(count == 37)' <&- " + work, 0, "", 3},
		{"ksnoop trace 'vfs_read(count == 37)' </dev/null " + work, 0, "", 3},
		{"ksnoop trace --for=1s 'vfs_read(count == 37)' >&-", exitFailed, "standard output is closed", 0},
		{"ksnoop trace 'vfs_read(count == 37)' 2>&- " + work, 0, "", 3},
		{"ksnoop trace --for=1s 'vfs_read(count == 37)' >/dev/full", exitFailed, "no space left on device", 0},
		{"ksnoop trace --for=1s 'vfs_read(count == 37)' 2>/dev/full", 0, "", 0},
		{"ulimit -n 64; ksnoop trace 'vfs_read(count == 37)' " + work, 0, "", 3},
		{"ulimit -n 64; ksnoop trace --attach=kprobe 'vfs_*(return == 12345)' 'vfs_read(count == 37)' " + work, 0, "", 3},
		{"ulimit -n 64; ksnoop trace 'vfs_*(return == 12345)' 'vfs_read(count == 37)' " + work, 0, "", 3},
		{"ulimit -n 64; ksnoop trace --for=100ms --attach=fentry 'vfs_*(return < 0)'", 0, "ulimit -n is how many", 0},
		{"ulimit -n 20; ksnoop trace 'vfs_read(count == 37)' " + work, exitFailed, "ulimit -n is how many", 0},
		{"{ ksnoop trace --attach=kprobe '" + idle + "'; echo status $? >&2; } | head -1 >/dev/null", 0, "status 141", 0},
		{"{ ksnoop trace -e vfs_read -x EXDEV; echo status $? >&2; } | true", 0, "status 141", 0},
	} {
		begin := time.Now()
		out, errs, status := printedOnce(t, "sh", "-c", c.script)
		took := time.Since(begin)
		if n := records(out, "workload", "vfs_read"); status != c.status || !strings.Contains(errs, c.says) || n != c.records {
			t.Errorf("%s: status %d, want %d; %d records, want %d; want %q:\n%s", c.script, status, c.status, n, c.records, c.says, errs)
		}
		t.Logf("soak: operator: %s | %d | %v | %s", c.script, status, took.Round(10*time.Millisecond), oneLine(errs))
		settles(t, c.script)
	}
	return "as wanted"
}

// interruptAttaching presses Ctrl-C at several moments from the start until all is attached.
func interruptAttaching(t *testing.T) (said string) {
	for _, way := range [][]string{
		{"s*(return == 12345)"},                       // thousands, by what auto takes
		{"--attach=fentry", "vfs_*(return == 12345)"}, // two programs for each
		{"--attach=kprobe", "vfs_*(return == 12345)"},
		{"-e", "do_sys_openat2", "-a", "vfs_*", "-x", "EXDEV"},
	} {
		start := func() (cmd *exec.Cmd, attached chan struct{}, errs *bytes.Buffer) {
			cmd, attached, errs = exec.Command("ksnoop", append([]string{"trace"}, way...)...), make(chan struct{}), new(bytes.Buffer)
			cmd.Stdout = &announced{text: "TASK", seen: attached}
			cmd.Stderr = io.MultiWriter(errs, &announced{text: "Receiving", seen: attached})
			if way[0] != "-e" {
				cmd.Stderr = errs
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd, attached, errs
		}
		begin := time.Now()
		cmd, attached, errs := start()
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // interrupted
			close(ended)
		}()
		select {
		case <-attached:
		case <-ended:
			t.Fatalf("%q: it has ended: %s", way, errs)
		}
		whole := time.Since(begin)
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		var slowest time.Duration
		statuses := map[int]int{}
		const times = 4
		for i := range times {
			cmd, _, errs := start()
			after := whole/2 + whole/2*time.Duration(i+1)/(times+1) // before that it reads symbols
			time.Sleep(after)
			begin := time.Now()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			took := time.Since(begin)
			if slowest = max(slowest, took); took > livetest.Patience(5*time.Second) {
				t.Errorf("%q: it took %v to end", way, took)
			}
			status := cmd.ProcessState.ExitCode()
			statuses[status]++
			// 0: all was attached; -1: nothing was attached yet, and the signal was not caught.
			if status != 0 && status != -1 && !strings.Contains(errs.String(), "interrupted while it was attaching") {
				t.Errorf("%q: status %d: %s", way, status, errs)
			}
			t.Logf("soak: operator: %q, Ctrl-C after %v of %v: status %d after %v: %s", way, after.Round(time.Millisecond), whole.Round(time.Millisecond),
				status, took.Round(time.Millisecond), oneLine(errs.String()))
			settles(t, fmt.Sprint(way, i))
		}
		said += fmt.Sprintf("%q attaches in %v; %d times, ended after %v at most, by status %v; ", way, whole.Round(10*time.Millisecond), times, slowest.Round(10*time.Millisecond), statuses)
	}
	return said
}

// announced tells when a text was written.
type announced struct {
	text string
	buf  bytes.Buffer
	seen chan struct{}
	done bool
}

func (a *announced) Write(p []byte) (int, error) {
	if a.buf.Write(p); !a.done && strings.Contains(a.buf.String(), a.text) {
		a.done = true
		close(a.seen)
	}
	return len(p), nil
}

// inNamespace runs ksnoop in a PID namespace, with a /proc of it and with the host's.
func inNamespace(t *testing.T) (said string) {
	for _, own := range []string{"mount -t proc proc /proc && ", ""} {
		out, errs, status := printedOnce(t, "unshare", "-p", "-m", "-f", "sh", "-c", own+"ksnoop trace 'vfs_read(count == 37)' -- workload read -count 3 -size 37")
		if n := len(shownIDs(out)); status != 0 || n != 3 {
			t.Errorf("%q: status %d, %d calls of 3: %s\n%s", own, status, n, errs, out)
		}
		said += fmt.Sprintf("%q: 3 of 3 calls, %s; ", own, oneLine(errs))
		begin := time.Now()
		out, errs, status = printedOnce(t, "unshare", "-p", "-m", "-f", "sh", "-c", own+"ksnoop trace --for=2s vfs_write")
		if n := len(regexp.MustCompile(`(?m)^ *(?:ksnoop|exe) .* vfs_write\($`).FindAllString(out, -1)); status != 0 || n != 0 {
			t.Errorf("%q: status %d, ksnoop's own calls: %d: %s", own, status, n, errs)
		}
		said += fmt.Sprintf("vfs_write of itself not traced, %v; ", time.Since(begin).Round(100*time.Millisecond))
	}
	return said
}

// killedBefore kills ksnoop and looks at what the next one, or doctor --clean, removes.
func killedBefore(t *testing.T) string {
	events := func() int { return strings.Count(contents(t, "/sys/kernel/tracing/kprobe_events"), "\n") }
	var counts []int
	for _, next := range []string{"ksnoop trace --attach=fentry --for=1ms vfs_read", "ksnoop trace --attach=kprobe --for=1ms 'vfs_*()'", "ksnoop doctor --clean"} {
		r := startTrace(t, "--attach=kprobe", "vfs_*(return == 3)")
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		r.wait(t)
		counts = append(counts, events())
		out, errs, status := printedOnce(t, "sh", "-c", next)
		if n := events(); status != 0 || n != 0 {
			t.Errorf("%s: status %d, %d events are left: %s%s", next, status, n, out, errs)
		}
		t.Logf("soak: operator: kill -9, then %s: %s %s", next, oneLine(errs), map[bool]string{true: oneLine(out)}[strings.Contains(next, "doctor")])
	}
	return fmt.Sprintf("%v events were left, and none by the next", counts)
}

// blockedReader has nobody read a FIFO that is full.
func blockedReader(t *testing.T) (said string) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		busy bool
		args []string
	}{{true, nil}, {false, nil}, {true, []string{"--record", fifo}}} {
		read, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0) // which nothing is read of
		if err != nil {
			t.Fatal(err)
		}
		write, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		stop := sync.OnceFunc(flood(t, 43))
		cmd := exec.Command("ksnoop", append([]string{"trace", "--attach=kprobe", "vfs_read(count == 43)", "vfs_read(count == 43, return)"}, c.args...)...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = write, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitFull(t, read)
		write.Close()
		if !c.busy {
			stop()
		}
		begin := time.Now()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its status is looked at
		took := time.Since(begin)
		stop()
		read.Close()
		if status := cmd.ProcessState.ExitCode(); status != exitFailed || !strings.Contains(errs.String(), "nobody reads the output") {
			t.Errorf("%+v: status %d: %s", c, status, errs.String())
		}
		if took > livetest.Patience(2*time.Second) {
			t.Errorf("%+v: it took %v", c, took)
		}
		said += fmt.Sprintf("%+v: ended %v after SIGINT: %s; ", c, took.Round(10*time.Millisecond), oneLine(errs.String()))
		settles(t, "blocked reader")
	}
	return said
}

// endedBySignals sends each signal that ends ksnoop, to one that sees nothing and to one that is busy.
func endedBySignals(t *testing.T) (said string) {
	for _, s := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		specs := []string{idle}
		if s == unix.SIGHUP {
			specs = append(specs, "vfs_read(count == 43)")
		}
		for _, spec := range specs {
			file := recordingFile(t)
			r := startTrace(t, "--attach=kprobe", "--record", file, "--print", spec)
			stop := flood(t, 43)
			time.Sleep(time.Second)
			begin := time.Now()
			if err := r.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			_, status := r.wait(t)
			took := time.Since(begin)
			stop()
			errs := r.errs.String()
			if status != 0 || regexp.MustCompile(`goroutine|panic`).MatchString(errs) {
				t.Errorf("%v, %s: status %d: %s", s, spec, status, errs)
			}
			if _, errs, status := replayed(t, file); status != 0 {
				t.Errorf("%v, %s: the recording: status %d: %s", s, spec, status, errs)
			}
			said += fmt.Sprintf("%v, %s: status %d after %v; ", s, spec, status, took.Round(10*time.Millisecond))
			settles(t, s.String())
		}
	}
	return said
}
