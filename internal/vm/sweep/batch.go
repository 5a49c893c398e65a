// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
	"github.com/ksnoop/ksnoop/tracer"
)

// A result is what came of a batch.
type result struct {
	Traced  int               // functions that were attached to
	Refused map[string]string // functions that were not, and why
	Calls   int               // records that were read and turned into text
	Text    int               // bytes of that
	Lost    map[string]uint64 // records that are missing, by the cause
	// What went wrong: an error, or a complaint of the kernel. Empty: nothing.
	What string
	// How long it took to attach, to trace and to detach.
	Attach, Trace, Detach time.Duration
	Memory                memory // when all was detached
}

// traceBatches traces batches of functions in this machine, each for a time, under load. It reads
// them from in, arrays of names as JSON, and writes a result for each. The kernel is opened once:
// to read its types and symbols takes longer than to trace.
func traceBatches(in io.Reader, out io.Writer, method layout.Method, long time.Duration) error {
	kernel, err := tracer.Open()
	if err != nil {
		return err
	}
	if err := hasten(); err != nil {
		return err
	}
	messages, err := openMessages()
	if err != nil {
		return err
	}
	defer messages.Close()
	load, err := startLoad()
	if err != nil {
		return err
	}
	b := &batches{kernel: kernel, method: method, long: long, load: load}
	names, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var batch []string
		switch err := names.Decode(&batch); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		r := result{Refused: map[string]string{}, Lost: map[string]uint64{}}
		if err := b.trace(batch, &r); err != nil {
			r.What = err.Error()
		}
		complaints, err := messages.complaints()
		if err != nil {
			return err
		}
		r.What = strings.TrimSpace(r.What + "\n" + complaints)
		if r.Memory, err = memoryNow(); err != nil {
			return err
		}
		if err := results.Encode(&r); err != nil {
			return err
		}
	}
}

type batches struct {
	kernel *tracer.Kernel
	method layout.Method
	long   time.Duration
	load   load
}

// trace traces functions once and adds to r what comes of it. Where nothing can be attached,
// each half is traced, down to the function that the kernel refuses.
func (b *batches) trace(names []string, r *result) error {
	begin := time.Now()
	t, err := b.attach(names, r)
	r.Attach += time.Since(begin)
	switch refused := refusedByName(err); {
	case err == nil:
		return errors.Join(b.read(t, r), b.detach(t, r))
	case len(refused) > 0:
		maps.Copy(r.Refused, refused)
		names = slices.DeleteFunc(names, func(name string) bool { return refused[name] != "" })
		if len(names) == 0 {
			return nil
		}
		return b.trace(names, r)
	case len(names) == 1:
		r.Refused[names[0]] = err.Error()
		return nil
	}
	half := len(names) / 2
	return errors.Join(b.trace(names[:half:half], r), b.trace(names[half:], r))
}

// attach attaches to functions, and notes which ones could not be.
func (b *batches) attach(names []string, r *result) (*tracer.Tracer, error) {
	var log bytes.Buffer
	t, err := b.kernel.Attach(context.Background(), tracer.Request{Specs: names, Method: b.method, MaxCPU: -1, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		return nil, err
	}
	r.Traced += len(t.Functions())
	lines := json.NewDecoder(&log)
	for {
		var line struct{ Msg, Function, Reason string }
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return nil, errors.Join(err, t.Close())
		case line.Function != "":
			r.Refused[line.Function] = cmp.Or(line.Reason, line.Msg)
		}
	}
}

// read traces for a time under load, and reads what has come of it until there is no more:
// it makes the text that ksnoop would print.
func (b *batches) read(t *tracer.Tracer, r *result) error {
	begin := time.Now()
	defer func() { r.Trace += time.Since(begin) }()
	if err := b.load.on(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), b.long)
	defer stop()
	idle := make(chan error, 1)
	context.AfterFunc(ctx, func() { idle <- b.load.off() })
	for call, err := range t.Calls(ctx) {
		if err != nil {
			return err
		}
		r.Calls++
		r.Text += len(call.String())
	}
	stop()
	if err := <-idle; err != nil {
		return err
	}
	losses, err := t.Losses()
	for _, l := range losses {
		r.Lost[l.What] += l.Count
	}
	return err
}

// loaded is for how long the load runs while programs are taken off. A guest's CPUs take turns: one
// that is busy keeps the other waiting for a tenth of a second at each step of patching code.
const loaded = time.Second

// detach takes all programs off, the first of them under load.
func (b *batches) detach(t *tracer.Tracer, r *result) error {
	begin := time.Now()
	defer func() { r.Detach += time.Since(begin) }()
	if err := b.load.on(); err != nil {
		return errors.Join(err, t.Close())
	}
	idle := make(chan error, 1)
	time.AfterFunc(loaded, func() { idle <- b.load.off() })
	err := t.Close()
	return errors.Join(err, <-idle)
}

// refusedByName returns the functions that an error refuses one by one, and why: what a
// SPEC names and the kernel lets nobody trace is a fault of the SPEC.
func refusedByName(err error) map[string]string {
	refused := map[string]string{}
	switch e := err.(type) {
	case *expr.ErrorList:
		refused[e.Text] = e.Errors[0].Error()
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			maps.Copy(refused, refusedByName(err))
		}
	case interface{ Unwrap() error }:
		return refusedByName(e.Unwrap())
	}
	return refused
}

// A memory is what there is and what is taken, in KiB.
type memory struct {
	Available int // of the machine
	Resident  int // of this program
}

func memoryNow() (m memory, err error) {
	if m.Available, err = kibibytes("/proc/meminfo", "MemAvailable:"); err != nil {
		return m, err
	}
	m.Resident, err = kibibytes("/proc/self/status", "VmRSS:")
	return m, err
}

// kibibytes returns the number of a line in a file of /proc.
func kibibytes(file, line string) (n int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), line)
	if !found {
		return 0, fmt.Errorf("%s has no line %s", file, line)
	}
	_, err = fmt.Sscan(rest, &n)
	return n, err
}
