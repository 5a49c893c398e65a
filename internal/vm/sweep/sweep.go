// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
	"github.com/ksnoop/ksnoop/layout"
)

type options struct {
	kernel, method, state string
	size, most            int
	silence               time.Duration
}

// A sweep is one run.
type sweep struct {
	options
	system vm.Guest
	guest  *guest // nil: none is up
	state  state
}

// A state is what a later run needs to go on.
type state struct {
	Release, Method string
	// Left are the batches that are to be traced.
	Left [][]string
	// Traced and Batches count what was traced without a fault.
	Traced, Batches int
	// Refused are functions that the kernel let nobody attach to, and why.
	Refused map[string]string
	Calls   int
	Lost    map[string]uint64
	Faults  []fault
	Silent  time.Duration // the longest time between two beats
	Took    time.Duration // all batches
}

// A fault is a function that a guest did not stand, or the first and the last of a batch of
// which no half fails.
type fault struct{ Function, What string }

// patient makes the kernel complain later of what stands still. A guest is emulated: on a busy
// machine, a task that is preempted as the load runs may well wait for 21 s and more. What
// stands still for good is found all the same.
var patient = [...]string{"rcupdate.rcu_cpu_stall_timeout=120", "watchdog_thresh=60"}

func (s *sweep) run(ctx context.Context) error {
	kernel, err := vm.FindKernel(ctx, s.kernel)
	if err != nil {
		return err
	}
	s.system = vm.Guest{Kernel: kernel, Append: patient[:]}
	for _, folder := range []string{"cmd/ksnoop", "internal/vm/sweep"} {
		program, err := vm.Build(ctx, kernel.Arch, folder)
		if err != nil {
			return err
		}
		s.system.Files = append(s.system.Files, program)
	}
	if s.method == layout.MethodFentry.String() {
		modules, err := vm.TestModules(ctx, kernel)
		if err != nil {
			return err
		}
		s.system.Files = append(s.system.Files, modules...)
		s.system.Append = append(s.system.Append, restless)
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	for n := 0; len(s.state.Left) > 0 && (s.most == 0 || n < s.most); n++ {
		before, err := json.Marshal(&s.state)
		if err != nil {
			return err
		}
		if err := s.find(ctx, s.state.Left[0]); err != nil {
			s.state = state{} // this batch is to be done once more
			return errors.Join(err, json.Unmarshal(before, &s.state))
		}
		s.state.Left = s.state.Left[1:]
		if err := s.save(); err != nil {
			return err
		}
	}
	return nil
}

// find traces a batch and, if that fails, its halves. Where neither half fails, the batch does:
// together, or now and then.
func (s *sweep) find(ctx context.Context, batch []string) error {
	what, err := s.try(ctx, batch)
	if err != nil || what == "" {
		return err
	}
	fmt.Printf("%d functions from %s on: %s\n", len(batch), batch[0], what)
	faults := len(s.state.Faults)
	if half := len(batch) / 2; half > 0 {
		if err := s.find(ctx, batch[:half]); err != nil {
			return err
		}
		if err := s.find(ctx, batch[half:]); err != nil {
			return err
		}
	}
	if len(s.state.Faults) == faults {
		s.state.Faults = append(s.state.Faults, fault{strings.Join(slices.Compact([]string{batch[0], batch[len(batch)-1]}), " to "), what})
	}
	return nil
}

// try traces a batch. what is what went wrong; the guest is gone then.
func (s *sweep) try(ctx context.Context, batch []string) (what string, err error) {
	if s.guest == nil {
		if s.guest, err = startGuest(ctx, s.system, s.method, s.silence); err != nil {
			return "", err
		}
	}
	begin := time.Now()
	r, err := s.guest.trace(batch)
	took := time.Since(begin)
	s.state.Silent = max(s.state.Silent, s.guest.beats.silent())
	switch {
	case err != nil && ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		what = err.Error()
	case r.What != "":
		what = r.What
	}
	if what != "" {
		s.close()
		return what, nil
	}
	fmt.Printf("%s to %s: %d functions traced, %d refused, %d calls, attached in %.1fs, traced for %.1fs, detached in %.1fs, all in %.1fs; %d MiB available, %d MiB resident\n",
		batch[0], batch[len(batch)-1], r.Traced, len(r.Refused), r.Calls, r.Attach.Seconds(), r.Trace.Seconds(), r.Detach.Seconds(), took.Seconds(), r.Memory.Available>>10, r.Memory.Resident>>10)
	s.state.add(&r, took)
	return "", nil
}

// add notes a batch that was traced.
func (s *state) add(r *result, took time.Duration) {
	s.Batches++
	s.Traced += r.Traced
	s.Calls += r.Calls
	s.Took += took
	for name, why := range r.Refused {
		s.Refused[name] = why
	}
	for cause, n := range r.Lost {
		s.Lost[cause] += n
	}
}

func (s *sweep) close() {
	if s.guest != nil {
		s.guest.close()
		s.guest = nil
	}
}

// load reads what is left to do, or finds out.
func (s *sweep) load(ctx context.Context) error {
	data, err := os.ReadFile(s.options.state)
	if err == nil {
		if err := json.Unmarshal(data, &s.state); err != nil {
			return fmt.Errorf("%s: %w", s.options.state, err)
		}
		if s.state.Release == s.system.Kernel.Release && s.state.Method == s.method {
			return nil
		}
		return fmt.Errorf("%s is of %s by %s", s.options.state, s.state.Release, s.state.Method)
	}
	if s.options.state != "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	functions, err := s.functions(ctx)
	if err != nil {
		return err
	}
	s.state = state{Release: s.system.Kernel.Release, Method: s.method, Refused: map[string]string{}, Lost: map[string]uint64{},
		Left: slices.Collect(slices.Chunk(functions, s.size))}
	return s.save()
}

func (s *sweep) save() error {
	if s.options.state == "" {
		return nil
	}
	data, err := json.Marshal(&s.state)
	if err != nil {
		return err
	}
	return os.WriteFile(s.options.state, data, 0o600)
}

// traced matches a line of ksnoop trace --dry-run of a SPEC that captures nothing, for which it
// takes less time.
var traced = regexp.MustCompile(`(?m)^ *([^\s()]+)\(\), by \S+$`)

// functions asks ksnoop what it can attach to. A name that several functions share is there
// once, since it stands for all of them.
func (s *sweep) functions(ctx context.Context) ([]string, error) {
	machine, err := s.system.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer machine.Close()
	var out, errs bytes.Buffer
	status, err := machine.Run(ctx, vm.Command{Args: []string{"ksnoop", "trace", "--dry-run", "--attach=" + s.method, "*()"}, Stdout: &out, Stderr: &errs})
	if err != nil || status.ExitCode() != 0 {
		return nil, fmt.Errorf("asking for all functions: %v, %w: %s", status, err, errs.Bytes())
	}
	var names []string
	for _, m := range traced.FindAllStringSubmatch(out.String(), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s can attach to no function", s.method)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
