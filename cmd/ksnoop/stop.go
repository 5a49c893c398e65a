// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// stopTime is how long ksnoop waits, each time: for a reader that does not read, before a signal or after it, for the kernel to
// remove probes, and for the command before it says that it waits.
const stopTime = time.Second

// doubled is how soon after a signal another one is taken for the same: timeout(1) sends one to the
// process and one to its group.
const doubled = time.Second / 10

// stopSignals end a run.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// stops returns what stopSignals are sent to.
func stops() chan os.Signal {
	signals := make(chan os.Signal, 2)
	for _, s := range stopSignals {
		if !signal.Ignored(s) || s == os.Interrupt { // nohup ignores a hang-up; of interrupts, see endOnInterrupt
			signal.Notify(signals, s)
		}
	}
	signal.Stop(ignored)
	return signals
}

// untilSignal returns a context that ends at the first signal. If nobody reads what is
// left to print, or there is a second signal, the program ends at once, with nothing
// left attached.
func (t *tracing) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t.interrupted, t.signalled = ctx.Done(), make(chan struct{})
	signals, ended := stops(), make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			t.hungUp = s == syscall.SIGHUP
		case <-ended:
			return
		}
		close(t.signalled)
		regular.Hurry()
		cancel()
		first := time.Now()
		const grace = stopTime / 4 // for a reader that the same signal has told to read on
		watch := time.NewTicker(grace)
		defer watch.Stop()
		for {
			select {
			case <-signals:
				if time.Since(first) >= doubled {
					t.abandon("interrupted twice", ended)
				}
			case <-watch.C:
				if max(t.stdout.Blocked(), t.flags.record.to.Blocked(), t.stderr.Blocked()) > stopTime {
					t.abandon("nobody reads the output", ended)
				}
			case <-ended:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		cancel()
	}
}

// alone reports whether nothing is printed that would tell that something is waited for: neither
// a header nor what a command does.
func (t *tracing) alone() bool {
	return (t.plan.Sessions || onlyTables(t.plan)) && len(t.flags.command) == 0
}

// recordsOnly reports whether nothing at all is printed: then it is said from when on calls are seen.
func (t *tracing) recordsOnly() bool {
	f := t.flags
	return len(f.command) == 0 && (f.record.file != "" && !f.record.print || f.output.otlp.wanted())
}

// waiting is what is said while nothing is printed.
func (t *tracing) waiting() string {
	if c := &t.flags.control; onlyTables(t.plan) && t.flags.summing.every == 0 && c.duration == 0 {
		return "Receiving data... ^C prints the tables"
	}
	return "Receiving data..."
}

// detach takes the probes off. Of many that takes the kernel long.
func (t *tracing) detach() {
	if !t.alone() {
		return // as the tracer is closed
	}
	begin := "Detaching..."
	if t.stderr.Columns() > 0 {
		begin = "\n" + begin // behind ^C
	}
	t.detaching.Store(true)
	fmt.Fprint(t.stderr, begin)
	start := time.Now()
	_ = t.attached.Load().detach() // Close tells as little
	end := " done"
	if !t.detaching.Swap(false) {
		end = "Detached"
	}
	fmt.Fprintf(t.stderr, "%s in %d ms\n", end, time.Since(start).Milliseconds())
}

// leave has another process hold links that the kernel takes long to remove.
func (t *tracing) leave(links []*os.File) error {
	pid, err := launch.Hold(links)
	message := fmt.Sprintf("process %d stays", pid)
	if err != nil {
		message = fmt.Sprintf("ksnoop waits, as no other process can (%v),", err)
	}
	fmt.Fprintln(t.stderr, t.onALine(fmt.Sprintf("ksnoop: tracing is off; %s until the kernel has removed the last %s", message, plural.Of(len(links), "program{s}"))))
	return err
}

// onALine returns a message that begins a line, even if what is said about detaching has none of its own yet.
func (t *tracing) onALine(message string) string {
	if t.detaching.Swap(false) {
		return "\n" + message
	}
	return message
}

// attachments are what is attached: the run, and the one of what sessions are triggered by.
type attachments struct {
	runs  []*trace.Run
	whole bool // no more are attached
}

// stop switches the programs off.
func (a *attachments) stop() (err error) {
	for _, run := range a.runs {
		err = errors.Join(err, run.Stop())
	}
	return err
}

// detach takes the probes off. Triggers are few, so theirs are the first.
func (a *attachments) detach() (err error) {
	for _, run := range slices.Backward(a.runs) {
		err = errors.Join(err, run.Detach())
	}
	return err
}

// abandon ends the program, and waits for nothing that takes long. over is closed when it has
// ended by itself.
func (t *tracing) abandon(why string, over <-chan struct{}) {
	a := t.attached.Load()
	if a == nil || !a.whole {
		select {
		case <-over: // has taken off what was attached
			return
		case <-time.After(2 * stopTime):
		}
		if a = t.attached.Load(); a != nil {
			leaveIfLate(func() { _ = a.detach() })
		}
		endAtOnce("ksnoop: ended while it was attaching: " + why)
	}
	message := "ksnoop: ended at once: " + why
	if n := a.runs[0].Pending(); n > 0 && !t.ending.Load() { // those of triggers are not shown
		message += fmt.Sprintf("; %s of records not shown", plural.Of(n, "byte{s}"))
	}
	endAtOnce(t.onALine(message) + "\n" + t.takeOff(a))
}

// takeOff takes off what is attached, unless that takes long, and returns lines that say which losses there were.
func (t *tracing) takeOff(a *attachments) string {
	lost := make(chan string, 1)
	leaveIfLate(func() {
		lost <- t.lostLines(a.runs[0].End())
		_ = errors.Join(a.stop(), a.detach())
	})
	select {
	case text := <-lost:
		return text
	default:
		return "ksnoop: what was lost is not known: there was no time to read it"
	}
}

// lostLines returns lines that say which losses there were, or why that is not known, unless it is said already. The losses have the error.
func (t *tracing) lostLines(losses event.Losses, _ error) string {
	if t.told.Load() {
		return ""
	}
	return string(show.AppendLosses(nil, &losses, t.flags.control.stats))
}

func endAtOnce(message string) {
	// Past a command's stderr, which somebody may be in the middle of writing to.
	inTime(func() { fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n")) })
	os.Exit(exitFailed)
}

// leaveIfLate waits for detach, but not for long. Links end with this process. What it then has left in
// tracefs, another process takes away.
func leaveIfLate(detach func()) {
	if !inTime(detach) {
		_, _ = launch.Hold(nil) // else the next ksnoop does it
	}
}

// inTime waits for f, but not for long, and reports whether it has ended.
func inTime(f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(stopTime):
		return false
	}
}
