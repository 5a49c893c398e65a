// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/layout"
)

// A Run is a plan at work: Attach, Start, Records, End, Close.
type Run struct {
	// Plan is what is attached: with the methods that the kernel has taken, and their layouts.
	Plan *plan.Plan
	// Failed are the probes that could not be attached, with the kernel's own reasons where
	// these are known.
	Failed []attach.Failure

	tracer   *attach.Tracer
	log      *slog.Logger
	in       *Selection       // nil: it is not by container
	unselect func()           // ends what follows containers; nil if nothing does
	programs *programs        // nil: no spans are looked for in memory
	users    *process.Symbols // nil: no user stacks are named
	unwind   *unwinding       // nil: no user stacks are unwound
	unfollow func()           // ends what follows those; nil if nothing does
	off      func() uint64    // how many of ftrace and kprobes are, of those it needs
	slowly   bool             // begin with few calls, and see what that takes
	paced    bool             // Settings.Paced
	finish   func()           // of what Records has begun; nil before
	tooMuch  error            // why it has ended, if tracing took too much
}

// Attach attaches a plan; nothing is sent before Start. What a SPEC asks for by name and
// the kernel lets nobody trace is a fault of that SPEC: nothing stays attached then.
func Attach(ctx context.Context, view *kernel.View, p *plan.Plan, s Settings) (*Run, error) {
	if slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return p.Method == layout.MethodUprobe }) {
		if err := process.CheckLocks(ctx, os.DirFS("/")); err != nil {
			return nil, err
		}
	}
	r, err := begin(ctx, view, p, s, false)
	if err != nil {
		if refused := plan.Refused(view, p, p.Probes); refused != nil {
			return nil, refused
		}
		return nil, err
	}
	if refused := plan.Refused(view, r.Plan, probesOf(r.Failed)); refused != nil {
		return nil, errors.Join(refused, r.Close())
	}
	view.Renew() // attaching has added symbols, those of trampolines
	return r, nil
}

// Load has the kernel check the programs of a plan, and attaches nothing.
func Load(ctx context.Context, view *kernel.View, p *plan.Plan, s Settings) (loaded *plan.Plan, failed []attach.Failure, err error) {
	r, err := begin(ctx, view, p, s, true)
	if err != nil {
		return nil, nil, err
	}
	return r.Plan, r.Failed, r.Close()
}

func begin(ctx context.Context, view *kernel.View, p *plan.Plan, s Settings, loadOnly bool) (*Run, error) {
	p, err := attach.ReadWays(p, view)
	if err != nil {
		return nil, err
	}
	o, err := Options(ctx, view, p, s)
	if err != nil {
		return nil, err
	}
	o.LoadOnly = loadOnly
	tracer, err := attach.Attach(p, o)
	if err != nil {
		s.rejected(err)
		return nil, err
	}
	for _, f := range tracer.Failed() {
		s.rejected(f.Err)
	}
	r := &Run{Plan: tracer.Attached(), Failed: Explained(view, tracer.Failed()), tracer: tracer, log: s.Log, in: s.Selection,
		slowly: beginSlowly(p, &s.Filter), paced: s.Paced, users: s.Users}
	if s.Unwinder != nil {
		r.unwind = &unwinding{unwinder: s.Unwinder, plan: r.Plan}
	}
	r.off = func() uint64 { return uint64(len(switchedOff(view, r.Plan))) }
	if p.Sessions && s.Report.Parent.Places() {
		r.programs = newPrograms(s.Report.Parent, tracer.SetSpanPlace, s.Log)
	}
	return r, nil
}

// beginSlowly reports whether a plan is to be traced for a small part of the time at first.
// That is not so if its first calls are what somebody is waiting for, those of a command, or
// if most calls are left alone since they are in no session.
func beginSlowly(p *plan.Plan, f *bpf.Filter) bool {
	return len(p.Probes) > plan.Many && !p.Sessions && !f.Family
}

// rejected writes what the verifier has said, if somebody wants that.
func (s *Settings) rejected(err error) {
	var said *ebpf.VerifierError
	if s.Verifier != nil && errors.As(err, &said) {
		fmt.Fprintf(s.Verifier, "%+v\n", said)
	}
}

// Explained returns failures with the kernel's own reasons where they are known: what it
// returns for a function that is notrace tells nobody.
func Explained(view *kernel.View, failed []attach.Failure) []attach.Failure {
	out := make([]attach.Failure, len(failed))
	for i, f := range failed {
		out[i] = f
		if err := f.Probe.Refusal(view); err != nil {
			out[i].Err = err
		}
	}
	return out
}

func probesOf(failed []attach.Failure) []*plan.Probe {
	probes := make([]*plan.Probe, len(failed))
	for i, f := range failed {
		probes[i] = f.Probe
	}
	return probes
}

// Start switches the programs on. adopt hands to add the processes that are followed with
// all that they start; it may be nil. If ctx ends, no more processes are looked at first.
func (r *Run) Start(ctx context.Context, adopt func(add func(pid int) error) error) error {
	if r.in != nil {
		selecting, stop := context.WithCancel(context.Background())
		r.unselect = stop
		if err := r.in.follow(selecting, r.tracer.SetCgroups); err != nil {
			return err
		}
	}
	if r.programs != nil {
		if err := r.programs.lookAtAll(ctx, mostLooking); err != nil {
			return err
		}
		serving, stop := context.WithCancel(context.Background())
		r.unfollow = stop
		go r.programs.serve(serving)
	}
	start := r.tracer.Start
	if r.slowly && r.paced {
		start = r.tracer.StartPaused
	}
	if adopt == nil {
		return start()
	}
	return errors.Join(adopt(r.tracer.Adopt), start())
}

// Limits bound a run.
type Limits struct {
	For    time.Duration // 0: no limit
	Budget attach.Budget // a Share of 0 is no limit
	// Hung is how long a session is open when it is reported as one that hangs; 0: none is.
	Hung time.Duration
}

// Records yields raw records until ctx ends or a limit is reached, and the buffer is empty.
// The programs are off afterwards. A record is valid until the next one is asked for. The
// limits hold from the call of Records on, before a record is asked for: whoever prints
// them may be kept waiting first.
func (r *Run) Records(ctx context.Context, l Limits) iter.Seq2[[]byte, error] {
	ctx, stop := l.context(ctx)
	context.AfterFunc(ctx, func() {
		if err := r.tracer.Stop(); err != nil {
			r.log.Error(err.Error())
		}
	})
	var watching sync.WaitGroup
	if l.Hung > 0 {
		watching.Go(func() { r.tracer.WatchHung(ctx, l.Hung/2) })
	}
	kept := r.keepWithin(ctx, l.Budget, stop)
	r.finish = sync.OnceFunc(func() {
		stop()
		watching.Wait()
		r.tooMuch = <-kept
		// Not in the background only: the next may be Close. If it fails, that was logged.
		_ = r.tracer.Stop()
	})
	return func(yield func([]byte, error) bool) {
		defer r.finish()
		for raw, err := range r.tracer.Records(ctx) {
			if r.programs != nil && err == nil {
				r.programs.saw(raw)
			}
			if r.unwind != nil && err == nil {
				raw, err = r.unwind.record(raw)
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}

func (l *Limits) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.For == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.For)
}

// keepWithin watches what tracing takes until ctx ends, and calls stop if that cannot be
// brought below the limit. It delivers why.
func (r *Run) keepWithin(ctx context.Context, b attach.Budget, stop func()) <-chan error {
	done := make(chan error, 1)
	if b.Share == 0 {
		done <- nil
		return done
	}
	b.Slowly = r.slowly
	go func() {
		err := r.tracer.KeepWithin(ctx, b)
		if err != nil {
			stop()
		}
		done <- err
	}()
	return done
}

// End switches the programs off and returns what is missing in the records. It is to be
// called before Detach: what is attached knows what the kernel has skipped.
func (r *Run) End() (l event.Losses, err error) {
	if err = r.tracer.Stop(); err == nil {
		l.Lost, err = r.Counters()
		l.Lost[bpf.SwitchedOff] = r.off()
	}
	if err != nil {
		l = event.Losses{Unread: err} // what was counted until then says nothing
	}
	l.Uncounted, l.Cut = r.tracer.Uncounted(), r.tracer.Cut()
	return l, err
}

// Counters returns what was counted so far.
func (r *Run) Counters() (counted [bpf.Counters]uint64, err error) {
	counted, err = r.tracer.Counters()
	counted[bpf.ShortStack] += r.unwind.short()
	if r.users != nil {
		counted[bpf.UnseenCode] += r.users.Unseen()
	}
	return counted, err
}

// TooMuch is why the records have ended if tracing took more than its budget; else nil.
func (r *Run) TooMuch() error { return r.tooMuch }

// Pending returns how many bytes of records wait to be read.
func (r *Run) Pending() int { return r.tracer.Pending() }

// Taken returns how many bytes the records took that are done with. What is pending comes on top of that.
func (r *Run) Taken() uint64 { return r.tracer.Taken() }

// OpenSessions returns how many sessions have not ended.
func (r *Run) OpenSessions() (uint32, error) { return r.tracer.OpenSessions() }

// Stop switches the programs off, for good.
func (r *Run) Stop() error { return r.tracer.Stop() }

// Detach takes all probes off the kernel.
func (r *Run) Detach() error { return r.tracer.Detach() }

// Close detaches what is attached and frees all else.
func (r *Run) Close() error {
	if r.unselect != nil {
		r.unselect()
	}
	if r.unfollow != nil {
		r.unfollow()
	}
	if r.finish != nil {
		r.finish() // nobody may have asked for a record
	}
	return r.tracer.Close()
}

// Tables are what calls are added to. There are none without aggregations.
func (r *Run) Tables() *summary.Tables { return r.tracer.Tables() }

// TakeRows adds to b what was added up since the last time, and returns how many keys b had no
// room for.
func (r *Run) TakeRows(b *summary.Builder) (lost uint64, err error) { return r.tracer.TakeRows(b) }

// Stack returns a stack that a key names.
func (r *Run) Stack(number uint64, user bool) (summary.Stack, bool) {
	return r.tracer.Stack(number, user)
}
