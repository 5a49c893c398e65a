// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// script traces batches. The guest beats five times a second all the while, on standard error.
const script = `while sleep 0.2; do echo beat >&2; done &
sweep -inside -attach "$0"
`

// patience is many times what a batch takes.
const patience = 20 * time.Minute

// Why a guest is given up.
var (
	errSilent = errors.New("the guest stood still")
	errSlow   = fmt.Errorf("the batch was not done within %v", patience)
)

// A guest traces batches.
type guest struct {
	machine *vm.Machine
	batches *io.PipeWriter
	results chan result
	ended   chan error // why it takes no more batches
	stop    context.CancelCauseFunc
	beats   *watch
}

// startGuest boots a guest and begins to watch it. After silence without a beat it is ended.
func startGuest(ctx context.Context, g vm.Guest, method string, silence time.Duration) (*guest, error) {
	machine, err := g.Start(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	in, batches := io.Pipe()
	results, out := io.Pipe()
	x := &guest{machine: machine, batches: batches, results: make(chan result, 1), ended: make(chan error, 1), stop: stop,
		beats: &watch{silence: time.AfterFunc(silence, func() { stop(fmt.Errorf("%w for %v", errSilent, silence)) }), limit: silence, last: time.Now()}}
	go func() {
		status, err := machine.Run(ctx, vm.Command{Args: []string{"sh", "-c", script, method}, Stdin: in, Stdout: out, Stderr: x.beats})
		switch cause := context.Cause(ctx); {
		case cause != nil:
			err = cause
		case err == nil:
			err = fmt.Errorf("%v: %s", status, x.beats.said())
		}
		in.CloseWithError(err)
		out.CloseWithError(err)
	}()
	go x.receive(results)
	return x, nil
}

// receive passes results on until there are no more.
func (x *guest) receive(results io.Reader) {
	decoder := json.NewDecoder(results)
	for {
		var r result
		if err := decoder.Decode(&r); err != nil {
			x.ended <- err
			return
		}
		x.results <- r
	}
}

// trace has a batch traced. The guest is of no use after an error.
func (x *guest) trace(names []string) (r result, err error) {
	slow := time.AfterFunc(patience, func() { x.stop(errSlow) })
	defer slow.Stop()
	if err := json.NewEncoder(x.batches).Encode(names); err != nil {
		return r, err
	}
	select {
	case r := <-x.results:
		return r, nil
	case err := <-x.ended:
		return r, err
	}
}

// close ends the guest at once.
func (x *guest) close() {
	x.beats.silence.Stop()
	x.stop(nil)
	x.machine.Close()
}

// A watch takes what a guest says on standard error, and notes how it beats.
type watch struct {
	silence *time.Timer
	limit   time.Duration

	mu      sync.Mutex
	last    time.Time
	longest time.Duration // between two beats
	text    bytes.Buffer  // all that is not a beat
}

func (w *watch) Write(p []byte) (int, error) {
	w.silence.Reset(w.limit)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.longest, w.last = max(w.longest, now.Sub(w.last)), now
	w.text.WriteString(strings.ReplaceAll(string(p), "beat\n", ""))
	return len(p), nil
}

// silent returns the longest time between two beats.
func (w *watch) silent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest
}

func (w *watch) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
