// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/record"
)

// A following is how replay reads a recording: as it is, or as it grows.
type following struct {
	wanted   bool
	follower *record.Follower // nil if the recording is read as it is
	stop     func()           // ends waiting for more
	reader   *readerWatch     // nil if nothing is waited for
}

func (f *following) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.wanted, "follow", false, "wait for more until the recording is complete, or nobody is writing it any more")
}

// open returns what the recording is read from. A signal ends waiting until close is called.
func (f *following) open(file *os.File) (in io.Reader, close func()) {
	if !f.wanted {
		return bufio.NewReaderSize(file, 64<<10), func() {}
	}
	ctx, stop := untilStopped()
	f.follower, f.stop = record.Follow(ctx, file), stop
	return f.follower, func() {
		f.follower.Close()
		stop()
	}
}

// untilStopped returns a context that a signal ends, before stop is called. A second signal, unless
// it is doubled, ends ksnoop at once.
func untilStopped() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	signal.Stop(ignored)
	context.AfterFunc(ctx, func() {
		time.Sleep(doubled)
		stop()
	})
	return ctx, stop
}

// watch ends waiting when nobody can read any more what is printed, until close is called.
func (f *following) watch(out *printout) (close func(), err error) {
	if f.follower == nil {
		return func() {}, nil
	}
	if f.reader, err = watchReader(out, f.stop); err != nil {
		return nil, err
	}
	return f.reader.close, nil
}

// idle says when it may take a while until the next record; nil if it never does.
func (f *following) idle(r *record.Reader) func() bool {
	if f.follower == nil {
		return nil
	}
	return func() bool { return !r.Pending() && f.follower.Idle() }
}

// ended takes an interrupt for a good end, and says so.
func (f *following) ended(err error, stderr io.Writer) error {
	if !errors.Is(err, record.ErrInterrupted) {
		return err
	}
	if err := f.reader.err(); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "ksnoop: %v\n", record.ErrInterrupted)
	return nil
}
