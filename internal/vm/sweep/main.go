// SPDX-License-Identifier: Apache-2.0

// Sweep traces every function of a kernel that a method can attach to, a batch at a
// time, entry and return with all values, while a mixed load runs in the guest, and sees
// whether the guest lives on.
//
//	sweep -kernel 6.12 -attach fentry -state FILE
//
// A batch fails if the guest stops beating, if ksnoop fails, or if the kernel
// complains. It is then halved until the function is known, in a new guest each time.
// With -state a run goes on where the last one has ended. It exits with 1 if a
// function was found.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
)

type options struct {
	kernel, method, state string
	size, most            int
	silence               time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kernel, "kernel", vm.KernelNames()[0], "`name` of the kernel, as guestrun has it")
	flag.StringVar(&o.method, "attach", "fentry", "`method` of ksnoop trace --attach")
	flag.StringVar(&o.state, "state", "", "`file` that says what was done already")
	flag.IntVar(&o.size, "size", 256, "`functions` in a batch")
	flag.IntVar(&o.most, "batches", 0, "end after so many `batches` (default all)")
	flag.DurationVar(&o.silence, "silence", time.Minute, "`time` without a beat after which a guest hangs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &sweep{options: o}
	err := s.run(ctx)
	if s.machine != nil {
		s.machine.Close()
	}
	fmt.Printf("%s by %s: %d functions traced in %d batches, %d refused by the kernel, %d at fault, %d batches left, longest time without a beat %v\n",
		s.state.Release, o.method, s.state.Traced, s.state.Batches, s.state.Refused, len(s.state.Faults), len(s.state.Left), s.longest.Round(time.Millisecond))
	for _, f := range s.state.Faults {
		fmt.Printf("  %s: %s\n", f.Function, f.What)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sweep: %v\n", err)
	}
	if err != nil || len(s.state.Faults) > 0 {
		os.Exit(1)
	}
}

// A sweep is one run.
type sweep struct {
	options
	guest   vm.Guest
	machine *vm.Machine // nil: none is up
	state   state
	longest time.Duration // between two beats
}

// A state is what a later run needs to go on.
type state struct {
	Release, Method string
	// Left are the batches that are to be traced.
	Left [][]string
	// Traced and Refused are functions: what the kernel let nobody attach to was not traced.
	Traced, Refused, Batches int
	Faults                   []fault
}

// A fault is a function that a guest did not stand, or the first and the last of a batch of
// which no half fails.
type fault struct{ Function, What string }

func (s *sweep) run(ctx context.Context) error {
	kernel, err := vm.FindKernel(ctx, s.kernel)
	if err != nil {
		return err
	}
	programs, err := vm.Programs(ctx, kernel.Arch)
	if err != nil {
		return err
	}
	s.guest = vm.Guest{Kernel: kernel, Files: programs}
	if err := s.load(ctx); err != nil {
		return err
	}
	for n := 0; len(s.state.Left) > 0 && (s.most == 0 || n < s.most); n++ {
		batch := s.state.Left[0]
		before := s.state
		if err := s.find(ctx, batch); err != nil {
			s.state = before // this batch is to be done once more
			return errors.Join(err, s.save())
		}
		s.state.Left = s.state.Left[1:]
		if err := s.save(); err != nil {
			return err
		}
	}
	return nil
}

// unnamed matches what ksnoop says of a function that it cannot trace under its name, since the
// kernel has another one of that name which nobody can trace.
var unnamed = regexp.MustCompile(`(?m)^said: +column 1: the kernel does not let (\S+) be traced`)

// withoutUnnamed returns a batch without the functions that were refused by name.
func withoutUnnamed(batch []string, what string) []string {
	refused := map[string]bool{}
	for _, m := range unnamed.FindAllStringSubmatch(what, -1) {
		refused[m[1]] = true
	}
	return slices.DeleteFunc(slices.Clone(batch), func(name string) bool { return refused[name] })
}

// find traces a batch and, if that fails, its halves. Where neither half fails, the batch does:
// together, or now and then.
func (s *sweep) find(ctx context.Context, batch []string) error {
	what, refused, err := s.try(ctx, batch)
	if rest := withoutUnnamed(batch, what); err == nil && len(rest) < len(batch) {
		s.state.Refused += len(batch) - len(rest)
		if len(rest) == 0 {
			return nil
		}
		return s.find(ctx, rest)
	}
	if err != nil {
		return err
	}
	s.state.Batches++
	if what == "" {
		s.state.Traced += len(batch) - refused
		s.state.Refused += refused
		return nil
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

// load reads what is left to do, or finds out.
func (s *sweep) load(ctx context.Context) error {
	data, err := os.ReadFile(s.options.state)
	if err == nil {
		if err := json.Unmarshal(data, &s.state); err != nil {
			return fmt.Errorf("%s: %w", s.options.state, err)
		}
		if s.state.Release == s.guest.Kernel.Release && s.state.Method == s.method {
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
	s.state = state{Release: s.guest.Kernel.Release, Method: s.method}
	for len(functions) > 0 {
		n := min(len(functions), s.size)
		s.state.Left = append(s.state.Left, functions[:n])
		functions = functions[n:]
	}
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

// traced matches a line of ksnoop trace --dry-run.
var traced = regexp.MustCompile(`(?m)^ *(\S+), by (\S+)$`)

// functions asks ksnoop what it can attach to.
func (s *sweep) functions(ctx context.Context) ([]string, error) {
	if err := s.boot(ctx); err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	status, err := s.machine.Run(ctx, vm.Command{Args: []string{"ksnoop", "trace", "--dry-run", "--attach=" + s.method, "*"}, Stdout: &out, Stderr: &errs})
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
	return names, nil
}

func (s *sweep) boot(ctx context.Context) (err error) {
	if s.machine == nil {
		s.machine, err = s.guest.Start(ctx)
	}
	return err
}

// script traces the functions on its standard input. It beats five times a second
// all the while.
const script = `cat >/batch
while sleep 0.2; do echo beat; done & beat=$!
(while :; do cat /proc/self/stat /proc/meminfo; ls -R /sys/kernel; dd if=/dev/zero bs=4k count=50; mkdir /d; touch /d/f; rm -r /d; done >/dev/null 2>&1) & load=$!
dmesg -c >/dev/null
ksnoop trace --for=2s --max-cpu=off --attach="$0" @/batch 2>/errs >/dev/null; status=$?
kill $beat $load
dmesg | grep -E 'BUG|WARNING|Oops|stall|hung|lockup|Call Trace'
sed 's/^/said: /' /errs
exit $status
`

// notTraced matches what ksnoop says of functions that it could not attach to: of one, or of many.
var notTraced = regexp.MustCompile(`(?m)^said: ksnoop: (?:(\d+) functions \(.*\)|.*?): not traced`)

// ofKsnoop matches a line that ksnoop has said.
var ofKsnoop = regexp.MustCompile(`(?m)^said: .*\n?`)

// countRefused returns how many functions ksnoop has said that it does not trace.
func countRefused(said string) (n int) {
	for _, m := range notTraced.FindAllStringSubmatch(said, -1) {
		some, err := strconv.Atoi(m[1])
		if err != nil {
			some = 1
		}
		n += some
	}
	return n
}

// try traces a batch. what is what went wrong.
func (s *sweep) try(ctx context.Context, batch []string) (what string, refused int, err error) {
	if err := s.boot(ctx); err != nil {
		return "", 0, err
	}
	watched, hang := context.WithCancelCause(ctx)
	defer hang(nil)
	w := &watch{silence: time.AfterFunc(s.silence, func() { hang(errHang) }), limit: s.silence, last: time.Now()}
	defer w.silence.Stop()
	status, err := s.machine.Run(watched, vm.Command{Args: []string{"sh", "-c", script, s.method},
		Stdin: strings.NewReader(strings.Join(batch, "\n")), Stdout: w, Stderr: w})
	s.longest = max(s.longest, w.longest)
	said := strings.ReplaceAll(w.rest.String(), "beat\n", "")
	complaints := strings.TrimSpace(ofKsnoop.ReplaceAllString(said, ""))
	switch {
	case err != nil && ctx.Err() != nil:
		return "", 0, ctx.Err()
	case err == nil && complaints == "" && (status.ExitCode() == 0 || countRefused(said) == len(batch)):
		return "", countRefused(said), nil
	case err == nil:
		what = fmt.Sprintf("%v: %s", status, said)
	case context.Cause(watched) == errHang:
		what = fmt.Sprintf("the guest stood still for %v", s.silence)
	default:
		what = err.Error()
	}
	s.machine.Close()
	s.machine = nil
	return what, 0, nil
}

var errHang = errors.New("no beat")

// A watch takes what a guest says, and notes how it beats.
type watch struct {
	silence *time.Timer
	limit   time.Duration
	last    time.Time
	longest time.Duration
	rest    bytes.Buffer // all that it said
}

func (w *watch) Write(p []byte) (int, error) {
	w.silence.Reset(w.limit)
	now := time.Now()
	w.longest, w.last = max(w.longest, now.Sub(w.last)), now
	return w.rest.Write(p)
}
