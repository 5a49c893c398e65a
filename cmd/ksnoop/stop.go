// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/attach"
)

// stopTime is how long a run may take to end after a signal. What is left to print
// after that waits for a reader that does not read.
const stopTime = 2 * time.Second

// stopSignals end a run.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// untilSignal returns a context that ends at the first signal. If the run has not
// ended soon after, because nobody reads what it prints, or there is a second signal, the program ends at once, with
// nothing left attached.
func (t *tracing) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals...)
	ended := make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-ended:
			return
		}
		cancel(attach.ErrInterrupted)
		why := "printing took too long"
		select {
		case <-signals:
			why = "interrupted twice"
		case <-time.After(stopTime):
		case <-ended:
			return
		}
		t.abandon(why)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		cancel(nil)
	}
}

// abandon ends the program, and waits for nothing that takes long.
func (t *tracing) abandon(why string) {
	tracer := t.attached.Load()
	if tracer == nil {
		t.quit("ksnoop: ended while it was attaching: " + why)
	}
	left := tracer.Pending()
	inTime(func() { _ = errors.Join(tracer.Stop(), tracer.Detach()) })
	t.quit(fmt.Sprintf("ksnoop: ended at once: %s; %d bytes of records not shown", why, left))
}

func (t *tracing) quit(message string) {
	// Past t.stderr, which somebody may be in the middle of writing to.
	inTime(func() { fmt.Fprintln(os.Stderr, message) })
	os.Exit(exitFailed)
}

// inTime waits for f, but not for long.
func inTime(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(stopTime):
	}
}
