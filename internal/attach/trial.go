// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Trial is tracing as a whole, tried on one function: the engine and the
// programs of a SPEC are loaded and attached, the function is called, and a
// record of that call comes through the ring buffer. That a kernel has all the
// parts does not tell that they go together: it may refuse the engine's maps,
// or have a kfunc with another signature.
type Trial struct {
	Method  layout.Method
	Session bool // in the engine's sessions, else call by call
}

// trialMethods are the methods that are tried.
var trialMethods = [...]layout.Method{layout.MethodFentry, layout.MethodFsession, layout.MethodTracingMulti,
	layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession}

// Trials returns all that can be tried.
func Trials() []Trial {
	var trials []Trial
	for _, session := range []bool{false, true} {
		for _, m := range trialMethods {
			trials = append(trials, Trial{m, session})
		}
	}
	return trials
}

// String says what is tried: "calls by fentry", "sessions by multi".
func (t Trial) String() string {
	what := "calls"
	if t.Session {
		what = "sessions"
	}
	return what + " by " + t.Method.String()
}

// trialWait is how long a record may take that the kernel has sent already.
const trialWait = 5 * time.Second

// errNoRecord is what is wrong with tracing that can be set up and shows nothing.
var errNoRecord = errors.New("all was attached and the function called, but no record came")

// Run tries it with the running kernel, and leaves nothing behind.
func (t Trial) Run(ctx context.Context, view *kernel.View, arch string) error {
	return t.run(ctx, running{}, view, arch)
}

func (t Trial) run(ctx context.Context, h host, view *kernel.View, arch string) error {
	if err := supported(h, t.Method); err != nil {
		return err
	}
	tracer, err := t.attach(h, view, arch)
	if err != nil {
		return err
	}
	if err = awaitRecord(ctx, tracer); err != nil {
		if counts, countErr := tracer.Counters(); countErr == nil && counts != [bpf.Counters]uint64{} {
			err = fmt.Errorf("%w; losses by cause, as --stats has them: %v", err, counts)
		}
	}
	return errors.Join(err, tracer.Close())
}

// attach sets tracing of the harmless function up.
func (t Trial) attach(h host, view *kernel.View, arch string) (*Tracer, error) {
	spec, err := expr.Parse(harmless + trialItems)
	if err != nil {
		return nil, err
	}
	resolve := plan.Options{Arch: arch, Method: func(*plan.Probe) layout.Method { return t.Method }}
	types, err := view.BTF()
	if err != nil {
		return nil, err
	}
	code := codegen.Options{Arch: arch, Kfuncs: func() codegen.Kfuncs { return codegen.FindKfuncs(types) }}
	options := Options{Settings: bpf.Settings{RingSize: trialRing, TraceSelf: true}, Code: code, Kernel: view, Log: slog.New(slog.DiscardHandler)}
	if !t.Session {
		p, _, err := plan.Resolve(view, []*expr.Spec{spec}, resolve)
		if err != nil {
			return nil, err
		}
		return started(attachTo(h, p, options))
	}
	s, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: []*expr.Spec{spec}}, resolve)
	if err != nil {
		return nil, err
	}
	if options, err = SessionOptions(s, options, bpf.SessionSettings{Success: true, Count: trialSessions}); err != nil {
		return nil, err
	}
	return started(attachTo(h, s, options))
}

// started returns a tracer whose programs are switched on.
func started(t *Tracer, err error) (*Tracer, error) {
	if err != nil {
		return nil, err
	}
	if err := t.Start(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// trialItems are met by the call that the kernel's tests make, and decided at
// return with what was passed in: both ends must work.
const trialItems = "(a == 1, return == 2)"

// trialRing is the size of a trial's ring buffer: enough for one record.
const trialRing = 64 << 10

// trialSessions is room for the one session, and for those of others who happen to have the
// kernel call the same function.
const trialSessions = 16

// awaitRecord calls the harmless function until a record of it has come.
func awaitRecord(ctx context.Context, tracer *Tracer) error {
	spec := tracingSpec(ebpf.AttachTraceFEntry)
	spec.Name = harmless
	prog, err := tracer.host.loadProgram(spec, ebpf.CollectionOptions{Cache: tracer.types})
	if err != nil {
		return fmt.Errorf("a program to have the kernel call %s: %w", harmless, err)
	}
	defer prog.Close()
	if err := prog.call(); err != nil {
		return fmt.Errorf("having the kernel call %s: %w", harmless, err)
	}
	ctx, stop := context.WithTimeout(ctx, trialWait)
	defer stop()
	for _, err := range tracer.Records(ctx) {
		return err
	}
	return errNoRecord
}
