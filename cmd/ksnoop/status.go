// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/launch"
)

// Exit statuses besides 0 and that of a traced command.
const (
	exitFailed    = 1                       // something went wrong at run time
	exitDiffers   = 1                       // of diff, as of diff(1): two recordings differ
	exitUsage     = 2                       // wrong usage, or a SPEC that makes no sense
	exitUnmet     = 3                       // --expect was not met
	exitInterrupt = 128 + int(unix.SIGINT)  // see endOnInterrupt
	exitPipe      = 128 + int(unix.SIGPIPE) // who reads the output has gone, as after `| head -1`: no reason for a message
)

// A usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A troubleError is why diff could not compare two recordings, whatever else it is: 1 is the status of a difference.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

// A stoppedError is what a signal has kept from being done.
type stoppedError struct {
	error
	by unix.Signal
}

func (e stoppedError) Unwrap() error { return e.error }

func statusOf(err error) int {
	var usage usageError
	var spec *expr.ErrorList
	if errors.As(err, &usage) || errors.As(err, &spec) || errors.As(err, new(troubleError)) {
		return exitUsage
	}
	if errors.As(err, new(unmetError)) {
		return exitUnmet
	}
	if start := (*launch.StartError)(nil); errors.As(err, &start) {
		return start.Status()
	}
	if errors.Is(err, unix.EPIPE) {
		return exitPipe
	}
	if stopped := (stoppedError{}); errors.As(err, &stopped) {
		return 128 + int(stopped.by)
	}
	return exitFailed
}
