// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// A Runner runs a command and traces it, or traces a process that runs.
type Runner struct {
	Kernel  *kernel.View
	Command []string
	Wish    Wish         // which call of Command is meant
	User    *launch.User // whom it runs as; nil: as ksnoop
	Process *Process     // what is traced in place of Command; nil: Command is
	Log     *slog.Logger
	// Slow says what is being done, if that takes long, until done is called; nil: nothing is said.
	Slow func(what string) (done func())
	// Annotate adds what debug info says of ways; nil: nothing.
	Annotate func(*plan.Plan) *plan.Plan
	// UserStacks are the stacks of processes that the first run takes, and Unwinder makes them of
	// copies; nil if the kernel does.
	UserStacks bpf.Tail
	Unwinder   *process.Unwinder
	Users      *process.Symbols // names what they have
	// Recording gets the records of all runs; nil: they are not kept.
	Recording *record.Series
	refused   bool         // the command cannot be executed
	goOn      int          // how many processes of the first run were there when the command had ended
	Lost      event.Losses // of all runs
	// failed are the probes of the last run that the kernel has not taken. Its plan has them.
	failed []attach.Failure
}

// ErrInterrupted says that the context has ended before the run.
var ErrInterrupted = errors.New("interrupted before it was known why the command fails")

// mostBlocks is how many blocks of code a function has at most whose way is looked at.
const mostBlocks = 500

// errBlocks says that a function has more.
var errBlocks = errors.New("it has too many blocks of code")

const (
	ringSize = 4 << 20
	share    = 0.25 // of a CPU
	latency  = 20 * time.Millisecond
)

// What somebody can do who has no option for what tracing may take.
const seeMore = "with less else running, or of a smaller part of the command, more is seen"

// errTooMuch says that run.TooMuch is not nil.
var errTooMuch = fmt.Errorf("tracing takes more than %.0f%% of a CPU, and still would if it looked at next to no calls; %s", share*100, seeMore)

// recordSeq are raw records.
type recordSeq = iter.Seq2[[]byte, error]

// run attaches a request, runs the command, and passes on the plan and each record of it and of
// its children. It returns the exit status of the command, whose output is thrown away if it is to
// be quiet.
func (r *Runner) run(ctx context.Context, quiet bool, request trace.Request, s trace.Settings, take func(p *plan.Plan, records recordSeq) error) (status int, err error) {
	ready := func() {}
	if !quiet && r.Process == nil {
		ready = r.slow("attaching, to see which system calls of the command fail...")
	}
	defer ready()
	resolved, err := r.resolve(ctx, request)
	if err != nil {
		return 0, err
	}
	s.Filter.Family, s.Fallback, s.RingSize, s.Latency, s.Log, s.Hurry, s.Leave = true, true, ringSize, latency, r.Log, ctx.Done(), r.leave
	if r.Process != nil {
		return 0, r.runProcess(ctx, resolved.Plan, recordedAs(request, &s), s, take)
	}
	command, err := r.start(quiet)
	if err != nil {
		return 0, err
	}
	let := false
	defer func() {
		if !let {
			err = errors.Join(err, command.Kill())
		}
	}()
	run, err := r.attach(ctx, resolved.Plan, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := r.Recording.Begin(run.Plan, recordedAs(request, &s)); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Recording.EndRun(event.Losses{Uncounted: true})) }() // unless it has ended
	if err := run.Start(ctx, func(add func(int) error) error { return add(command.PID()) }); err != nil {
		return 0, err
	}
	let = true
	ready()
	command.Continue()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- <-command.Done()
		stop()
	}()
	if err := take(run.Plan, r.records(reading, run)); err != nil {
		return 0, errors.Join(err, terminate(command))
	}
	if ctx.Err() != nil {
		return 0, errors.Join(r.end(run), ErrInterrupted, terminate(command))
	}
	if !quiet { // the first run
		if r.goOn, err = run.GoOn(); err != nil {
			r.Log.Error(err.Error())
		}
	}
	if err := r.end(run); err != nil {
		return 0, err
	}
	if run.TooMuch() != nil {
		return 0, errors.Join(errTooMuch, terminate(command))
	}
	return launch.Status(<-ended)
}

// start starts the command. If it cannot be executed, the call that tries it is what there is to explain.
func (r *Runner) start(quiet bool) (c *launch.Command, err error) {
	start := launch.Start
	if quiet {
		start = launch.StartQuiet
	}
	if !r.refused {
		if c, err = start(r.User, r.Command); !launch.Refused(r.Command, err) {
			return c, err
		}
	}
	r.refused = true
	return launch.StartExecutor(r.User, r.Command, quiet)
}

// slow is Slow. What it returns may be called again.
func (r *Runner) slow(what string) (done func()) {
	if r.Slow == nil {
		return func() {}
	}
	return sync.OnceFunc(r.Slow(what))
}

// An AttachError is why nothing could be attached.
type AttachError struct{ error }

func (e AttachError) Unwrap() error { return e.error }

// attach attaches a plan. After an interrupt nothing stays attached.
func (r *Runner) attach(ctx context.Context, p *plan.Plan, s trace.Settings) (*trace.Run, error) {
	run, err := trace.Attach(ctx, r.Kernel, p, s)
	if errors.Is(err, attach.ErrInterrupted) || ctx.Err() != nil {
		return nil, cmp.Or(closed(run), error(ErrInterrupted))
	}
	if err != nil {
		return nil, AttachError{err}
	}
	r.failed = run.Failed
	return run, nil
}

// records are those of a run until ctx ends, kept within what tracing may take.
func (r *Runner) records(ctx context.Context, run *trace.Run) recordSeq {
	return r.recorded(run.Records(ctx, trace.Limits{Budget: attach.Budget{Share: share, Say: r.sayPaused}}))
}

// end switches the programs of a run off, and adds up what it has lost.
func (r *Runner) end(run *trace.Run) error {
	lost, err := run.End()
	if err != nil {
		return err
	}
	for cause, n := range lost.Lost {
		r.Lost.Lost[cause] += n
	}
	return r.Recording.EndRun(lost)
}

// runProcess traces the process until take returns. It returns ErrEnded or ErrInterrupted if the
// process or ctx has ended before: take may have seen what it waits for nevertheless.
func (r *Runner) runProcess(ctx context.Context, p *plan.Plan, sessions *record.Sessions, s trace.Settings, take func(p *plan.Plan, records recordSeq) error) (err error) {
	if r.Process.hasEnded() {
		return ErrEnded
	}
	s.Filter.NotPIDs = []uint32{uint32(os.Getpid())} // who looks at a shell may have been started by it
	run, err := r.attach(ctx, p, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if r.Process.hasEnded() { // meanwhile, and nothing of it was seen
		return ErrEnded
	}
	if err := r.Recording.Begin(run.Plan, sessions); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Recording.EndRun(event.Losses{Uncounted: true})) }() // unless it has ended
	if err := run.Start(ctx, trace.Processes{PIDs: []uint{uint(r.Process.PID)}, Follow: true}.Adopt); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r.Process.stop = stop
	go func() {
		select {
		case <-r.Process.Ended:
			stop()
		case <-reading.Done():
		}
	}()
	if err := take(run.Plan, r.records(reading, run)); err != nil {
		return err
	}
	if err := r.end(run); err != nil {
		return err
	}
	switch {
	case run.TooMuch() != nil:
		return errTooMuch
	case ctx.Err() != nil:
		return ErrInterrupted
	case r.Process.hasEnded():
		return ErrEnded
	}
	return nil
}

// resolve makes the plan of a run. Each step takes up to a second on a slow machine: whoever has
// interrupted does not wait for the next one.
func (r *Runner) resolve(ctx context.Context, request trace.Request) (resolved trace.Resolved, err error) {
	if ctx.Err() != nil {
		return resolved, ErrInterrupted
	}
	if resolved, err = trace.Resolve(r.Kernel, request); err != nil {
		return resolved, err
	}
	if ctx.Err() != nil {
		return resolved, ErrInterrupted
	}
	if resolved, err = resolved.Choose(r.Kernel, request); err != nil {
		return resolved, err
	}
	if resolved.Plan, err = attach.ReadWays(resolved.Plan, r.Kernel); err != nil {
		return resolved, err
	}
	for _, p := range resolved.Plan.Probes {
		if p.Way != nil && len(p.Way.Graph().Blocks) > mostBlocks {
			return resolved, errBlocks
		}
	}
	if r.Annotate != nil {
		resolved.Plan = r.Annotate(resolved.Plan)
	}
	if ctx.Err() != nil {
		return resolved, ErrInterrupted
	}
	return resolved, nil
}

// recordedAs is what a recording says of how sessions were asked for; nil for calls.
func recordedAs(request trace.Request, s *trace.Settings) *record.Sessions {
	if request.Sessions == nil {
		return nil
	}
	return &record.Sessions{Traced: s.Report.Traced}
}

// recorded passes records on that it has recorded.
func (r *Runner) recorded(records recordSeq) recordSeq {
	if r.Recording == nil {
		return records
	}
	return func(yield func([]byte, error) bool) {
		for raw, err := range records {
			if err == nil {
				err = r.Recording.Append(raw)
			}
			if !yield(raw, err) || err != nil {
				return
			}
		}
	}
}

// closed closes a run that is not wanted any more.
func closed(run *trace.Run) error {
	if run == nil {
		return nil
	}
	return run.Close()
}

// terminate ends the command, which nobody waits for any more.
func terminate(c *launch.Command) error {
	if err := syscall.Kill(c.PID(), syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending the command: %w", err)
	}
	return nil
}

// leave has another process hold what the kernel takes long to remove.
func (r *Runner) leave(links []*os.File) error {
	_, err := launch.Hold(links)
	return err
}

func (r *Runner) sayPaused(takes, part float64) {
	if part < 1 {
		r.Log.Warn(fmt.Sprintf("tracing takes %.0f%% of a CPU: calls are looked at for %.0f%% of the time only, and the failing one may be missing; %s", takes*100, part*100, seeMore))
	}
}

// noLoss are what is counted and no loss: arguments that point nowhere, what tracing itself has
// called, and other sessions.
var noLoss = []bpf.Counter{bpf.Unreadable, bpf.LostRecursion, bpf.Truncated, bpf.LeftFine, bpf.LeftError, bpf.LeftShort, bpf.LeftUnmet}

// Missing returns what is missing in what the runs saw, by cause.
func (r *Runner) Missing() (all []Lost) {
	for i, n := range r.Lost.Lost {
		if cause := bpf.Counter(i); n > 0 && !slices.Contains(noLoss, cause) {
			all = append(all, lostBy(cause, n))
		}
	}
	return all
}

// callsMissing reports whether there may be calls that the runs have not seen, and not only names or frames of their stacks.
func (r *Runner) callsMissing() bool {
	for i, n := range r.Lost.Lost {
		if cause := bpf.Counter(i); n > 0 && cause != bpf.ShortStack && cause != bpf.UnseenCode && !slices.Contains(noLoss, cause) {
			return true
		}
	}
	return false
}

// lostBy says what a counter of the engine has counted.
func lostBy(cause bpf.Counter, n uint64) Lost {
	if cause == bpf.PausedTime {
		what := fmt.Sprintf("millisecond{s} in which no calls were looked at, so that tracing takes no more than %.0f%% of a CPU; %s", share*100, seeMore)
		return Lost{plural.Text(0, what), n, plural.Of(n, what)}
	}
	return Lost{output.LossText(cause), n, output.LossCount(cause, n)}
}

// ordinal returns which of the failures like the chosen one a run is to look at. A process makes
// the chosen one never again: the next one stands for it.
func (r *Runner) ordinal(seen *Seen, chosen int) int {
	if r.Process != nil {
		return 0
	}
	return seen.ordinal(chosen)
}

// function returns a function of vmlinux whose type is known.
func (r *Runner) function(name string) (f kernel.Function, ok bool) {
	s, ok := r.Kernel.SymbolNamed(name, "")
	if !ok {
		return f, false
	}
	found, err := r.Kernel.SelectAt([]uint64{s.Addr})
	if err != nil {
		return f, false
	}
	for _, f := range found {
		if f.Type != nil && f.Name == name {
			_, ok := f.Type.Type.(*btf.FuncProto)
			return f, ok
		}
	}
	return f, false
}
