// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/ksnoop/ksnoop/internal/why"
)

// stoppable returns a context that the first signal ends.
func stoppable(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals...)
	signal.Stop(ignored)
	go func() {
		select {
		case s := <-signals:
			cancel(stoppedError{errors.New(s.String()), s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
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
