// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveEndless: a signal ends a trace of what never ends, and what was printed is
// whole.
func TestLiveEndless(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		r := startTrace(t, attach, "vfs_read(count == 43, return)")
		defer flood(t, 43)()
		if err := exec.Command("workload", "read", "-count", "2", "-size", "43").Run(); err != nil {
			t.Fatal(err)
		}
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		out, status := r.wait(t)
		if begun, ended := len(blocksOf(out)), strings.Count(out, "\n);\n"); status != 0 || begun == 0 || begun != ended {
			t.Errorf("status %d, %d records of which %d are whole", status, begun, ended)
		}
	})
}

// TestLiveStopTime: from Ctrl-C to the last byte it takes two seconds at most, however many
// calls are made and however slowly they are read.
func TestLiveStopTime(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("is about time: run `make soak`")
	}
	const spec = "vfs_read(count == 47, *file)"
	for _, rate := range []int{0, 256 << 10} { // bytes per second; 0: as they come
		cmd := exec.Command("ksnoop", "trace", spec)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		pipe, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		eof, begun, behind := make(chan int, 1), make(chan struct{}), make(chan struct{})
		go func() {
			buf, total := make([]byte, 16<<10), 0
			for {
				n, err := pipe.Read(buf)
				if total == 0 {
					close(begun)
				}
				const held = 128 << 10 // by the writer and the pipe
				if total < held && total+n >= held {
					close(behind)
				}
				if total += n; err != nil {
					eof <- total
					return
				}
				if rate > 0 {
					time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
				}
			}
		}()
		<-begun // the header: the flood need not slow down what comes before
		work := exec.Command("workload", "threads", "-threads", "2", "-count", "100000000", "-size", "47")
		if err := work.Start(); err != nil {
			t.Fatal(err)
		}
		<-behind
		time.Sleep(time.Second)
		begin := time.Now()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		total := <-eof
		last := time.Since(begin)
		err = cmd.Wait()
		t.Logf("soak: Ctrl-C, a reader of %d B/s (0: as fast as they come): last byte after %v, end after %v, %d bytes printed: %s", rate,
			last, time.Since(begin), total, strings.ReplaceAll(strings.TrimSpace(errs.String()), "\n", "; "))
		if err != nil || last > livetest.Patience(2*time.Second) {
			t.Errorf("%d B/s: %v, last byte after %v", rate, err, last)
		}
		if err := errors.Join(work.Process.Kill(), ignoreExit(work.Wait())); err != nil {
			t.Error(err)
		}
	}
	const made = 20_000
	begin := time.Now()
	out, errs, status := printedOnce(t, "ksnoop", "trace", "--max-cpu=off", "--ringbuf=256K", spec, "--", "sh", "-c", fmt.Sprintf("exec workload threads -threads 2 -count %d -size 47 >/dev/null", made/2))
	shown, lost := records(out, "workload", "vfs_read"), sum(t, summary, errs)
	t.Logf("soak: flood that ends by itself: %d made, %d printed, %d lost, %v: %s", made, shown, lost, time.Since(begin), strings.TrimSpace(errs))
	if n := shown + lost; status != 0 || n > made || n+sum(t, skipped, errs) < made {
		t.Errorf("status %d, %d printed and %d lost of %d: %s", status, shown, lost, made, errs)
	}
}

// TestLiveStopCount: Ctrl-C while the reader is far behind. What was printed, what found no room in
// the buffer and what there was no more time for are together the calls that were made.
func TestLiveStopCount(t *testing.T) {
	guest.Require(t)
	const made, size = 3000, 47
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r := &running{cmd: exec.Command("ksnoop", "trace", "--max-cpu=off", "--ringbuf=64K", "vfs_read(count == 47, *file)"), eof: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = write, &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	header := make([]byte, 1)
	if _, err := io.ReadFull(read, header); err != nil {
		t.Fatal(err)
	}
	r.out.Write(header)
	// In parts, so that marks of what was lost lie between records in the buffer.
	for range 3 {
		if out, err := exec.Command("workload", "threads", "-threads", "2", "-count", fmt.Sprint(made/6), "-size", fmt.Sprint(size)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := io.CopyN(&r.out, read, 64<<10); err != nil { // makes room for some
			t.Fatal(err)
		}
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go func() { // a slow reader, but one that reads
		for {
			if _, err := io.CopyN(&r.out, read, 4<<10); err != nil {
				r.eof <- nil
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	out, status := r.wait(t)
	errs := r.errs.String()
	shown, lost, cut, missed := records(out, "workload", "vfs_read"), sum(t, summary, errs), sum(t, cutShort, errs), sum(t, skipped, errs)
	t.Logf("%d made, %d printed, %d lost, %d cut, %d skipped", made, shown, lost, cut, missed)
	if n := shown + lost + cut; status != 0 || n > made || n+missed < made {
		t.Errorf("status %d, %d printed, %d lost and %d cut of %d: %s", status, shown, lost, cut, made, errs)
	}
	if shown == 0 || lost == 0 || cut == 0 {
		t.Errorf("%d printed, %d lost, %d cut: this tests less than it is to", shown, lost, cut)
	}
}

// cutShort matches the line that says how many records an interrupt has left unread.
var cutShort = regexp.MustCompile(`(?m)^ksnoop: (\d+) records? not shown because there was too much to print`)

// TestLiveUnread: where nobody reads what is printed, a signal ends the trace all the
// same, and nothing stays attached.
func TestLiveUnread(t *testing.T) {
	guest.Require(t)
	for _, signals := range []int{1, 2} {
		defer flood(t, 43)()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		// By kprobes in tracefs, which do not go with the process that has made them.
		r := &running{cmd: exec.Command("ksnoop", "trace", "--attach=kprobe", "--ringbuf=256K", "--max-cpu=off", "vfs_read(count == 43)", "vfs_read(count == 43, return)"), eof: make(chan error, 1)}
		var errs bytes.Buffer
		r.cmd.Stdout, r.cmd.Stderr = write, &errs
		if err := r.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		awaitFull(t, read)
		time.Sleep(livetest.Patience(2 * time.Second)) // until the ring buffer is full as well
		for range signals {
			if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		r.eof <- nil
		if _, status := r.wait(t); status != exitFailed || !strings.Contains(errs.String(), "ended at once: ") || !strings.Contains(errs.String(), "lost because the ring buffer was full") {
			t.Errorf("%d signals: status %d, want %d:\n%s", signals, status, exitFailed, errs.String())
		}
		// Where the kernel is slow to detach, another process removes them, a little later.
		events := contents(t, "/sys/kernel/tracing/kprobe_events")
		for end := time.Now().Add(livetest.Patience(5 * time.Second)); strings.Contains(events, "vfs_read") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			events = contents(t, "/sys/kernel/tracing/kprobe_events")
		}
		if strings.Contains(events, "vfs_read") {
			t.Errorf("%d signals: still there:\n%s", signals, events)
		}
	}
}

// TestLiveTriggerTwice: a second interrupt ends a flight recorder of sessions at once, and nothing
// of its triggers stays attached, which are traced apart.
func TestLiveTriggerTwice(t *testing.T) {
	guest.Require(t)
	defer flood(t, 43)()
	r := startSessions(t, "--attach=kprobe", "-S", "-e", "vfs_read(count == 43)", "--record", recordingFile(t), "--force", "--flight", "1M", "--trigger", "vfs_open(return == 12345)")
	if events := contents(t, "/sys/kernel/tracing/kprobe_events"); !strings.Contains(events, "vfs_read") || !strings.Contains(events, "vfs_open") {
		t.Errorf("this tests nothing, traced are\n%s", events)
	}
	for range 2 {
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	if _, status := r.wait(t); status > exitFailed {
		t.Errorf("status %d: %s", status, r.errs.String())
	}
	if left := contents(t, "/sys/kernel/tracing/kprobe_events"); left != "" {
		t.Errorf("left are\n%s", left)
	}
}

// TestLiveReaderGone: when the reader goes, as head -1 does, ksnoop ends, although there is
// nothing to write, and nothing stays attached.
func TestLiveReaderGone(t *testing.T) {
	guest.Require(t)
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy=%t", busy), func(t *testing.T) { readerGone(t, busy) })
	}
}

func readerGone(t *testing.T, busy bool) {
	// By kprobes in tracefs, as in TestLiveUnread.
	cmd := exec.Command("ksnoop", "trace", "--attach=kprobe", "vfs_read(count == 43)", "vfs_read(count == 43, return)")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(pipe, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	if busy {
		defer flood(t, 43)()
	}
	if err := cmd.Wait(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if status := cmd.ProcessState.ExitCode(); status != 128+int(unix.SIGPIPE) || errs.Len() > 0 {
		t.Errorf("%v: %s", cmd.ProcessState, errs.String())
	}
	if left := contents(t, "/sys/kernel/tracing/kprobe_events"); left != "" {
		t.Errorf("left are\n%s", left)
	}
}

// TestLiveSuspended: while ksnoop is stopped, as by Ctrl-Z, calls are still recorded for as long as
// there is room, and counted from then on. It goes on where it was.
func TestLiveSuspended(t *testing.T) {
	guest.Require(t)
	const made = 3000
	r := startTrace(t, "--max-cpu=off", "--ringbuf=64K", "vfs_read(count == 59)")
	if err := r.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("workload", "read", "-count", fmt.Sprint(made), "-size", "59").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	shown, lost := r.ended(t, "vfs_read", made)
	t.Logf("%d shown and %d lost of %d made while ksnoop was stopped", shown, lost, made)
	if shown == 0 || lost == 0 {
		t.Errorf("%d shown, %d lost", shown, lost)
	}
}

// TestLiveKilled: events of tracefs outlive a ksnoop that is killed; the next one removes them,
// those of a single function and those of many.
func TestLiveKilled(t *testing.T) {
	guest.Require(t)
	events := func() string {
		t.Helper()
		text, err := os.ReadFile("/sys/kernel/tracing/kprobe_events")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, spec := range []string{"vfs_read(return == 3)", "vfs_*(return == 3)"} {
		r := startTrace(t, "--attach=kprobe", spec)
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		r.wait(t)
		if !strings.Contains(events(), "ksnoop_") {
			t.Errorf("%s: it has left no event:\n%s", spec, events())
		}
	}
	traced(t, "trace", "--attach=fentry", "--for=1ms", "vfs_read(count == 3)")
	if left := events(); left != "" {
		t.Errorf("left are\n%s", left)
	}
}

// awaitFull waits until nothing more fits into a pipe.
func awaitFull(t *testing.T, pipe *os.File) {
	t.Helper()
	for was, deadline := 0, time.Now().Add(livetest.Patience(time.Minute)); ; time.Sleep(time.Second) {
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		switch {
		case err != nil:
			t.Fatal(err)
		case n > 1<<15 && n == was:
			return
		case time.Now().After(deadline):
			t.Fatalf("only %d bytes in the pipe", n)
		}
		was = n
	}
}

// TestLiveGuard traces what the engine itself calls with a lock held: the kernel
// stays alive, and calls that tracing has made are left out and counted.
func TestLiveGuard(t *testing.T) {
	guest.Require(t)
	for _, attach := range theirMethods(t) {
		out, errs, status := printedOnce(t, "ksnoop", "trace", "--attach="+attach, "--stats", "--for=1s", "_raw_spin_lock_irqsave", "_raw_spin_unlock_irqrestore", "bpf_get_current_comm")
		if status != 0 || !block.MatchString(out) {
			t.Errorf("%s: status %d:\n%s", attach, status, errs)
		}
		own := counted(t, errs, "calls left out because tracing itself has made them")
		byKernel := attach == "kprobe" || attach == "multi" || attach == "session"
		if byKernel && own > 0 || attach == "fentry" && own == 0 { // of tracing_multi one program serves all: the kernel sees to it
			t.Errorf("%s: %d calls of the engine's own left out:\n%s", attach, own, errs)
		}
	}
}

// TestLiveGuardOfOthers: a program of a tracepoint or of a kprobe does not run inside one of a trampoline. That one reads user
// memory that is not there: by a function that ksnoop hooks by a kprobe, and the kernel comes by a tracepoint when it handles
// the fault.
func TestLiveGuardOfOthers(t *testing.T) {
	guest.Require(t)
	const calls = 4
	for _, inside := range []string{"copy_from_user_nofault((unsigned long)src == 4096)", "tp:exceptions:page_fault_kernel(address == 4096)"} {
		name, _, _ := strings.Cut(inside, "(")
		if strings.HasPrefix(name, "tp:") && runtime.GOARCH != "amd64" {
			continue // there is no tracepoint of faults
		}
		out, errs, status := printedOnce(t, "ksnoop", "trace", "--stats", "vfs_read(count == 43, *user((int *)4096))", inside,
			"--", "workload", "read", "-count", strconv.Itoa(calls), "-size", "43")
		if status != 0 || strings.Count(out, "Unreadable memory") != calls {
			t.Fatalf("%s: status %d:\n%s%s", inside, status, out, errs)
		}
		if own := counted(t, errs, "calls left out because tracing itself has made them"); own != calls || strings.Contains(out, name) {
			t.Errorf("%s: %d calls of the engine's own left out, want %d:\n%s", inside, own, calls, out)
		}
	}
}

// TestLiveNoTrampoline: what the kernel calls on the way out of each trampoline has none of its
// own, whatever is asked for, and is traced by kprobes. Tasks are preempted inside programs
// meanwhile: one trampoline of rcu_read_unlock_special makes Linux 7.3 panic then.
func TestLiveNoTrampoline(t *testing.T) {
	guest.Require(t)
	const function = "rcu_read_unlock_special"
	traceable, err := os.ReadFile("/sys/kernel/tracing/available_filter_functions")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile("(?m)^" + function + "$").Match(traceable) {
		t.Skip("this kernel does not have " + function)
	}
	done := make(chan struct{})
	defer close(done)
	for range 2 {
		go func() {
			for b := make([]byte, 1); ; {
				select {
				case <-done:
					return
				default:
					if f, err := os.Open("/dev/zero"); err == nil {
						_, _ = f.Read(b)
						f.Close()
					}
				}
			}
		}()
	}
	for _, attach := range theirMethods(t) {
		_, errs, status := printedOnce(t, "ksnoop", "trace", "--attach="+attach, "--for=1s", function+"()", "vfs_read(count == 1, file->f_flags == 77)", "vfs_open()")
		trampoline := attach == "fentry" || attach == "fsession" || attach == "tracing_multi"
		if refused := strings.Contains(errs, "would never end"); status != 0 || refused != trampoline {
			t.Errorf("%s: status %d, refused %t:\n%s", attach, status, refused, errs)
		}
	}
	if _, errs, status := printedOnce(t, "ksnoop", "trace", "--for=1s", function+"()", "vfs_open()"); status != 0 || strings.Contains(errs, "not traced") {
		t.Errorf("auto: status %d:\n%s", status, errs)
	}
}

// TestLiveFeedback: to trace what wakes ksnoop does not make it wake more often. The
// guest is idle; without a bound there would be tens of thousands.
func TestLiveFeedback(t *testing.T) {
	guest.Require(t)
	_, errs, status := printedOnce(t, "ksnoop", "trace", "--stats", "--for=1s", "try_to_wake_up(p->pid)")
	if n := counted(t, errs, "records printed"); status != 0 || n == 0 || n > 5000 {
		t.Errorf("status %d, %d wake-ups in a second:\n%s", status, n, errs)
	}
}

// TestLiveWholeSessions: a session that is under way when the probes are attached is
// not shown in part, as if the functions that were hooked late had not been called.
func TestLiveWholeSessions(t *testing.T) {
	guest.Require(t)
	done := make(chan struct{})
	var opens sync.WaitGroup
	for range 2 {
		opens.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = os.Open("/no such file")
				}
			}
		})
	}
	out, errs, status := printedOnce(t, "ksnoop", "trace", "-T", "--for=1s", "-e", "do_sys_openat2", "-a", "path_openat", "-x", "ENOENT")
	close(done)
	opens.Wait()
	sessions := regexp.MustCompile(`(?m)^→ do_sys_openat2 *$`).FindAllStringIndex(out, -1)
	incomplete := 0
	for i, at := range sessions {
		end := len(out)
		if i+1 < len(sessions) {
			end = sessions[i+1][0]
		}
		if s := out[at[0]:end]; !strings.Contains(s, " path_openat ") {
			incomplete++
			t.Logf("session %d of %d lacks calls:\n%s", i+1, len(sessions), s)
		}
	}
	if incomplete > sum(t, skipped, errs) {
		t.Errorf("%d of %d sessions lack calls:\n%s", incomplete, len(sessions), errs)
	}
	if len(sessions) == 0 || status != 0 {
		t.Errorf("status %d, no sessions:\n%s\n%s", status, out, errs)
	}
}
