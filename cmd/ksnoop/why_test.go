// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/why"
)

// TestWhyFull: that there is no room for the page is said once, whatever of it would come.
func TestWhyFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	seen := &why.Seen{Calls: []why.Failure{{Errno: uint64(unix.EPERM)}, {Errno: uint64(unix.EINVAL)}}, Status: 1}
	var errs bytes.Buffer
	e := explanation{whyFlags: &whyFlags{once: true}, runner: &why.Runner{}, seen: seen, page: why.NewPage([]string{"tool"}, seen), called: &output.Tails{}, out: full, stderr: &errs}
	err = e.explain(t.Context())
	if err == nil || strings.Count(err.Error(), "no space left on device") != 1 || len(messages(err)) != 1 || errs.Len() > 0 || len(e.page.Notes) != 1 || e.page.Notes[0] != err.Error() {
		t.Errorf("%v; notes %q, printed %q", err, e.page.Notes, errs.String())
	}
}

// TestWhyNone: that no call has failed is said of those that were seen, if some may be missing.
func TestWhyNone(t *testing.T) {
	for _, tt := range []struct {
		seen why.Seen
		want string
	}{
		{why.Seen{}, "the command succeeded, and none of its system calls has failed"},
		{why.Seen{Incomplete: true}, "the command succeeded, and none of its system calls that were seen has failed"},
		{why.Seen{Status: 3}, "the command failed with exit status 3, and none of its system calls has failed: "},
		{why.Seen{Status: 3, Incomplete: true}, "the command failed with exit status 3, and none of its system calls that were seen has failed: "},
	} {
		var out, errs bytes.Buffer
		e := explanation{whyFlags: &whyFlags{}, runner: &why.Runner{}, seen: &tt.seen, page: why.NewPage([]string{"tool"}, &tt.seen), out: &out, stderr: &errs}
		if err := e.explain(t.Context()); err != nil || out.Len() > 0 || !strings.HasPrefix(errs.String(), "ksnoop: "+tt.want) {
			t.Errorf("%+v: %q, %q, %v", tt.seen, out.String(), errs.String(), err)
		}
	}
}

// TestWhyListened: that no call of a process has failed is said only if ksnoop has listened.
func TestWhyListened(t *testing.T) {
	for _, tt := range []struct {
		early    error
		listened bool
		want     string
	}{
		{why.ErrInterrupted, false, "interrupted before ksnoop listened"},
		{why.ErrInterrupted, true, "interrupted: no system call has failed"},
		{why.ErrEnded, false, "process 7 ended before ksnoop listened"},
		{why.ErrEnded, true, "process 7 has ended: no system call has failed"},
	} {
		e := explanation{whyFlags: &whyFlags{}, runner: &why.Runner{Process: &why.Process{PID: 7}}, seen: &why.Seen{Listened: tt.listened}, early: tt.early}
		if _, _, err := e.choose(); err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestWhyUntraceable: that a kernel lets nothing be attached is said before what was tried last.
func TestWhyUntraceable(t *testing.T) {
	needBTF(t)
	if tried := attach.Probe(t.Context(), attach.CapFentry, attach.CapKprobe); tried.Has(attach.CapFentry) || tried.Has(attach.CapKprobe) {
		t.Skip("this kernel can be traced")
	}
	if _, stderr, status := ran("why", "--", "true"); status != exitFailed || !strings.HasPrefix(stderr, "ksnoop: cannot trace") || !strings.Contains(stderr, "ksnoop doctor shows") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestWhyStopped: a shell sees by its status which signal has ended why, and nothing contradicts the page.
func TestWhyStopped(t *testing.T) {
	heedHangUp()
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		ctx, stop := stoppable(t.Context(), doubled)
		if err := unix.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		const text = "interrupted before it was known which way f took"
		for _, early := range []error{fmt.Errorf("f: %w", why.ErrInterrupted), interruptedError(text)} {
			if err := stopped(ctx, early); statusOf(errors.Join(err, nil)) != 128+int(s) || err.Error() != early.Error() {
				t.Errorf("%v: status %d: %v", s, statusOf(err), err)
			}
		}
		if err := errors.New("another"); stopped(ctx, err) != err {
			t.Error("another error is taken for an interrupt")
		}
		stop()
	}
}

// heedHangUp has a hang-up not count as ignored, which signal.Reset leaves as it is.
func heedHangUp() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGHUP)
	signal.Stop(c)
}

// TestWhyNohup: a hang-up that why was started to ignore stays ignored.
func TestWhyNohup(t *testing.T) {
	signal.Ignore(unix.SIGHUP)
	defer heedHangUp()
	ctx, stop := stoppable(t.Context(), doubled)
	defer stop()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGTERM} { // the second comes behind the first
		if err := unix.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(doubled / 20)
	}
	<-ctx.Done()
	if by := (stoppedError{}); !errors.As(context.Cause(ctx), &by) || by.by != unix.SIGTERM {
		t.Errorf("ended by %v", context.Cause(ctx))
	}
}

// TestWhyStoppedTwice: a second signal ends what the first one does not, but for one that is doubled.
func TestWhyStoppedTwice(t *testing.T) {
	const stuck = "KSNOOP_TEST_STUCK" // how soon a second signal is the same
	if soon, err := time.ParseDuration(os.Getenv(stuck)); err == nil {
		os.Setenv(asProgram, "1") // for what it leaves behind
		ctx, _ := stoppable(t.Context(), soon)
		fmt.Println("ready")
		<-ctx.Done()
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt)
		fmt.Println("stopped")
		<-second
		time.Sleep(5 * doubled) // far longer than it takes to end at once
		fmt.Println("goes on")
		select {}
	}
	const last = "ksnoop: ended at once: interrupted twice\n"
	for soon, want := range map[time.Duration]string{0: last, time.Hour: ""} {
		c := exec.Command("/proc/self/exe", "-test.run=^TestWhyStoppedTwice$")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%v", stuck, soon))
		var stderr bytes.Buffer
		c.Stderr = &stderr
		stdout, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		end := time.AfterFunc(livetest.Patience(20*time.Second), func() { _ = c.Process.Kill() })
		defer end.Stop()
		lines := bufio.NewScanner(stdout)
		says := func(line string) bool {
			for lines.Scan() && lines.Text() != line {
			}
			return lines.Text() == line
		}
		for _, line := range []string{"ready", "stopped"} {
			if !says(line) {
				t.Errorf("it does not say %q", line)
			}
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
		if want == "" {
			if !says("goes on") {
				t.Error("it does not go on")
			}
			_ = c.Process.Kill()
		}
		err = c.Wait()
		if text := stderr.String(); text != want || (want != "") != (c.ProcessState.ExitCode() == exitFailed) {
			t.Errorf("a second signal, the same within %v: %v: %s", soon, err, text)
		}
	}
}

// TestWhyRefused: what cannot be meant is refused before anything is traced, as wrong usage.
func TestWhyRefused(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-p", "0"}, "-p 0: processes count from 1"},
		{[]string{"-p", "2147483648"}, "-p 2147483648: there is no process with such a number"},
		{[]string{"-p", fmt.Sprint(os.Getpid())}, "that is ksnoop itself"},
		{[]string{"-p", "1", "--", "true"}, "it goes without a command"},
		{nil, "no command to run"},
	} {
		if _, stderr, status := ran(append([]string{"why"}, tt.args...)...); status != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: status %d: %s", tt.args, status, stderr)
		}
	}
}

// TestWhyGone: a call on the output of a command may not fail again, since further runs have another one.
func TestWhyGone(t *testing.T) {
	params := []kernel.Field{{Name: "fd", Decl: "unsigned int"}}
	e := explanation{runner: &why.Runner{}, seen: &why.Seen{Calls: []why.Failure{{Params: params, Args: [6]uint64{1}, Function: "__x64_sys_write"}, {Params: params, Args: [6]uint64{3}}}}}
	const gone, null = "the call did not fail when the command was run again", " with /dev/null as descriptor 1"
	if got := e.gone(why.ErrGone, 0); !strings.HasPrefix(got, gone+null) || !strings.Contains(got, "why --syscall write -- ") {
		t.Error(got)
	}
	if got := e.gone(why.ErrGone, 1); got != gone {
		t.Error(got)
	}
	if got := e.gone(why.ErrInterrupted, 0); got != "" {
		t.Error(got)
	}
}

// TestWhyStatus: if no such call has failed as is asked for, the exit status is not that of the command.
func TestWhyStatus(t *testing.T) {
	for _, wish := range []why.Wish{{Nth: 99}, {Errno: uint64(unix.EINVAL)}} {
		seen := &why.Seen{Calls: []why.Failure{{Errno: uint64(unix.EPERM)}}, Status: 3}
		e := explanation{whyFlags: &whyFlags{wish: wish}, runner: &why.Runner{}, seen: seen, page: why.NewPage([]string{"tool"}, seen), out: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
		if err := e.explain(t.Context()); err == nil || statusOf(err) != 1 {
			t.Errorf("%+v: %v", wish, err)
		}
	}
	status := 0
	if help := newWhyCommand(&status).Long; !strings.Contains(help, "and 1 if no such call has failed") {
		t.Error(help)
	}
}
