// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/why"
)

// stoppable returns a context that the first signal ends. A second one ends ksnoop at once, unless it comes so soon that it
// is taken for the same.
func stoppable(ctx context.Context, soon time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals, ended := stops(), make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(stoppedError{errors.New(s.String()), s.(syscall.Signal)})
		case <-ended:
			return
		}
		first := time.Now()
		for {
			select {
			case <-signals:
				if time.Since(first) >= soon {
					_, _ = launch.Hold(nil) // for events of tracefs: all else that is attached ends with this process
					endAtOnce("ksnoop: ended at once: interrupted twice")
				}
			case <-ended:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		cancel(nil)
	}
}

// stopped adds to an error which signal it is due to that has ended a context, if it is.
func stopped(ctx context.Context, err error) error {
	if by := (stoppedError{}); errors.Is(err, why.ErrInterrupted) && errors.As(context.Cause(ctx), &by) {
		return stoppedError{err, by.by}
	}
	return err
}

// An interruptedError is why.ErrInterrupted in other words.
type interruptedError string

func (e interruptedError) Error() string      { return string(e) }
func (interruptedError) Is(target error) bool { return target == why.ErrInterrupted }
