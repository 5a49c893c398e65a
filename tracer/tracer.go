// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// A Kernel is the running kernel, with its types and symbols.
type Kernel struct{ view *kernel.View }

// Open opens the running kernel. The error says what stands in the way of all tracing here,
// if something does: a missing privilege or feature.
func Open() (*Kernel, error) {
	view := kernel.OpenRunning()
	view.SearchSymbols(attach.SearchSymbols(view))
	if _, err := view.BTF(); err != nil {
		return nil, err
	}
	if err := trace.Obstacle(view); err != nil {
		return nil, err
	}
	return &Kernel{view}, nil
}

// A Request says what is to be traced.
type Request struct {
	// Specs are SPECs, as in "vfs_read(file->f_flags, return < 0)". Their calls are yielded
	// as they happen or, with Entry, recorded within sessions.
	Specs []string
	// Entry are SPECs of functions that open sessions, Allow of functions that are recorded
	// within them.
	Entry, Allow []string
	// Deny are selectors of functions that are left out, as in "*rcu*" or "*[ext4]".
	// It is a fault if none of them matches a function of the kernel. Modules need not be loaded.
	Deny []string
	// Method is how functions are attached to. MethodAuto, the zero value, takes the best
	// way that the kernel has. The error of one that it lacks is ebpf.ErrNotSupported.
	Method layout.Method
	// Filter says whose calls are traced. The zero value: everybody's.
	Filter bpf.Filter
	// Rate bounds how many calls are yielded; Losses counts the rest. The zero value: all are.
	Rate bpf.Rate
	// Success asks for all sessions, not only those that fail.
	Success bool
	// Stack asks for the kernel's stack with each call. Sessions always have one.
	Stack bool
	// RingSize is how much memory records may take until they are read: bytes, a power of
	// two and at least a page; 0: 4 MiB.
	RingSize uint32
	// MaxCPU is what tracing may take of one CPU. Beyond, the kernel looks at calls for a
	// part of the time only, and if that does not help, the records end with an error.
	// 0: a quarter of a CPU. Negative: no limit.
	MaxCPU float64
	// Log is told of what is worth to know but no error: functions that could not be
	// attached to, pauses. Nil: nobody is.
	Log *slog.Logger
}

// Defaults of a Request.
const (
	defaultRingSize = 4 << 20
	defaultMaxCPU   = 0.25
	latency         = 20 * time.Millisecond // for which records may wait to be read together
)

// A Tracer is a request at work.
type Tracer struct {
	run     *trace.Run
	kernel  *kernel.View
	limits  trace.Limits
	fields  *output.Fields
	tails   output.Tails // for stacks
	cgroups *trace.Cgroups
	decoder *session.Decoder // nil until sessions are read

	mu     sync.Mutex // guards what follows
	read   bool       // Calls or Sessions was ranged over
	stop   func()     // ends the loop over them that is at work; nil: none is
	closed bool
}

// Why Calls and Sessions yield nothing.
var (
	ErrNoSessions = errors.New("the request has no Entry: there are calls, but no sessions")
	ErrSessions   = errors.New("the request has an Entry: there are sessions, and calls within them")
	// ErrRead: one of them was ranged over before, and what was read is gone.
	ErrRead = errors.New("the records of a Tracer are read once")
	// ErrClosed: Close was called. It is the error of Losses, too.
	ErrClosed = errors.New("the Tracer is closed")
)

// Attach resolves a request and attaches it. What is wrong with a SPEC is an
// *expr.ErrorList, several of them joined. When Attach returns, calls are being recorded;
// they wait in the ring buffer until they are read.
//
// If ctx has ended by then, its error is returned and nothing stays attached. Later it does
// not count: Calls and Sessions have their own. Attaching many functions takes seconds, so a
// time limit for the records is better begun when Attach has returned.
func (k *Kernel) Attach(ctx context.Context, r Request) (*Tracer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	request, err := r.parse(k.view, log)
	if err != nil {
		return nil, err
	}
	resolved, err := trace.Resolve(k.view, request)
	if err != nil {
		return nil, err
	}
	if resolved, err = resolved.Choose(k.view, request); err != nil {
		return nil, err
	}
	settings := trace.Settings{Filter: r.Filter, Rate: r.Rate, RingSize: r.RingSize, Tail: trace.Stacks(r.Stack, false, false, 0),
		Report: bpf.SessionSettings{Success: r.Success}, Fallback: r.Method == layout.MethodAuto, Latency: latency, Log: log}
	if r.RingSize == 0 {
		settings.RingSize = defaultRingSize
	}
	run, err := trace.Attach(ctx, k.view, resolved.Plan, settings)
	if err != nil {
		return nil, err
	}
	for _, f := range run.Failed {
		log.Warn("not traced", "function", f.Probe.Name, "reason", f.Err)
	}
	if err = ctx.Err(); err == nil {
		err = run.Start(ctx, nil)
	}
	if err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return &Tracer{run: run, kernel: k.view, limits: r.limits(log), fields: output.NewFields(output.Names{Symbol: symbols.Appender(k.view)}),
		tails: output.Tails{Kernel: symbols.New(k.view, nil, symbols.LevelNone)}, cgroups: trace.NewCgroups()}, nil
}

// parse turns the texts of a request into what package trace takes.
func (r *Request) parse(view *kernel.View, log *slog.Logger) (out trace.Request, err error) {
	specs, err1 := trace.ParseSpecs(r.Specs)
	entry, err2 := trace.ParseSpecs(r.Entry)
	allow, err3 := trace.ParseSpecs(r.Allow)
	deny, err4 := trace.ParseSelectors(r.Deny)
	filter := r.Filter
	if err := errors.Join(err1, err2, err3, err4, filter.Check()); err != nil {
		return out, err
	}
	switch {
	case len(specs)+len(entry) == 0:
		return out, errors.New("nothing is asked for: neither Specs nor Entry")
	case len(entry) == 0 && (len(allow) > 0 || r.Success):
		return out, errors.New("without Entry there are no sessions, which Allow and Success are about")
	case r.Method > layout.MethodTracingMulti:
		return out, fmt.Errorf("%v is no Method for functions: a SPEC says what is traced otherwise, as tp:sched:sched_switch", r.Method)
	case (r.Rate.Most > 0) != (r.Rate.Window > 0):
		return out, errors.New("a Rate is both Most and Window: so many calls in so much time")
	case r.RingSize != 0 && (bits.OnesCount32(r.RingSize) != 1 || r.RingSize < uint32(os.Getpagesize())):
		return out, fmt.Errorf("a RingSize of %d: it is a power of two, and at least a page of %d bytes", r.RingSize, os.Getpagesize())
	case filter.Family:
		return out, errors.New("a family of processes cannot be followed yet")
	}
	if err := attach.Supported(r.Method, view.TypeCache()); err != nil {
		return out, err
	}
	out = trace.Request{Method: r.Method, Specs: specs, Options: plan.Options{Arch: view.Arch(), UserFile: userfunc.Opener(os.Getenv("PATH"), view.Arch()), Deny: deny, Owner: layout.OwnerUID | layout.OwnerCgroup,
		Paired: filter.Fleeting() || r.Rate.Most > 0,
		Warn:   func(err error) { log.Warn(err.Error()) }}}
	if len(entry) > 0 {
		out.Sessions = &plan.SessionRequest{Entry: entry, Allow: allow, Specs: specs, Deny: deny}
	}
	return out, nil
}

func (r *Request) limits(log *slog.Logger) trace.Limits {
	share := r.MaxCPU
	switch {
	case share == 0:
		share = defaultMaxCPU
	case share < 0:
		share = 0
	}
	return trace.Limits{Budget: attach.Budget{Share: share, Asked: r.MaxCPU > 0, Say: func(takes, part float64) {
		if part == 1 {
			log.Warn("all calls are looked at again")
			return
		}
		log.Warn("tracing takes more than it may: calls are looked at for a part of the time", "takes", takes, "part", part)
	}}}
}

// A Function is one that is traced, and how.
type Function struct {
	Name, Module string // the Module is "" for vmlinux
	Method       layout.Method
}

// Functions returns what is traced: less than was asked for if some could not be attached to.
func (t *Tracer) Functions() []Function {
	failed := map[*plan.Probe]bool{}
	for _, f := range t.run.Failed {
		failed[f.Probe] = true
	}
	var out []Function
	for _, p := range t.run.Plan.Probes {
		if !failed[p] {
			out = append(out, Function{p.Func.Name, p.Func.Module, p.Method})
		}
	}
	return out
}

// CgroupPath returns the path of a cgroup below the mount of version 2, "/" for the mount itself;
// "" if it is not known, as of a cgroup that has gone before it was asked for. It may be called
// for each call: a path that is known is not looked up again.
func (t *Tracer) CgroupPath(id uint64) string { return t.cgroups.Group(id).Path }

// begin returns the context of a loop over records, and what ends the loop: it says why the
// records have ended, and nil if that was asked for.
func (t *Tracer) begin(ctx context.Context, sessions bool) (context.Context, func() error, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case sessions && !t.run.Plan.Sessions:
		return nil, nil, ErrNoSessions
	case !sessions && t.run.Plan.Sessions:
		return nil, nil, ErrSessions
	case t.closed:
		return nil, nil, ErrClosed
	case t.read:
		return nil, nil, ErrRead
	}
	t.read = true
	ctx, t.stop = context.WithCancel(ctx)
	return ctx, t.end, nil
}

func (t *Tracer) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	t.stop = nil
	if t.closed {
		return errors.Join(ErrClosed, t.release())
	}
	return t.run.TooMuch()
}

// Close takes everything off the kernel. Closed again, it does nothing. A loop over Calls or
// Sessions that is at work gets what was recorded before, and then ErrClosed.
func (t *Tracer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if t.stop != nil {
		t.stop() // the loop reads the buffer still, and closes the rest when it ends
		return t.run.Detach()
	}
	return t.release()
}

// release frees everything.
func (t *Tracer) release() error { return errors.Join(t.run.Close(), t.cgroups.Close()) }

var _ io.Closer = (*Tracer)(nil)
