// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// Settings say which calls are sent and what with them.
type Settings struct {
	Filter bpf.Filter
	// Selection has containers traced only; nil: whatever makes a call.
	Selection *Selection
	Rate      bpf.Rate
	Tail      bpf.Tail // stacks and branches
	// Users names what stacks of processes have; nil if there are none. What it has not seen is counted.
	Users *process.Symbols
	// Unwinder makes the stacks that records have copies of; nil if Tail has no UserCopy.
	Unwinder *process.Unwinder
	RingSize uint32 // bytes, a power of two and a multiple of the page size
	InFlight int    // calls whose return is awaited; 0: by the memory there is
	Keys     int    // of each table on each CPU; 0: by the memory that they take
	// Report says which sessions are reported, if it is for sessions.
	Report bpf.SessionSettings
	// Fallback allows a probe that cannot be attached with its method to be attached
	// with another one.
	Fallback bool
	// Paced says that Records, with a budget, follows Start: where much is traced nothing
	// is before.
	Paced bool
	// Latency, Hurry, Leave and Log are those of attach.Options.
	Latency time.Duration
	Hurry   <-chan struct{}
	Leave   func([]*os.File) error
	Log     *slog.Logger
	// Verifier is written all that the kernel's verifier says of programs that it refuses;
	// nil: nobody wants that.
	Verifier io.Writer
}

// Options say how a plan is attached with settings.
func Options(ctx context.Context, view *kernel.View, p *plan.Plan, s Settings) (attach.Options, error) {
	o := attach.Options{Kernel: view, Fallback: s.Fallback, Latency: s.Latency, Hurry: s.Hurry, Leave: s.Leave, Log: s.Log,
		Settings: bpf.Settings{Filter: s.Filter, Rate: s.Rate, RingSize: s.RingSize, InFlight: s.InFlight, Keys: s.Keys, Tail: s.Tail, Owner: uint8(p.Owner)}}
	var err error
	if o.Code, err = CodeOptions(ctx, view, p, s); err != nil || !p.Sessions {
		return o, err
	}
	return attach.SessionOptions(p, o, s.Report)
}

// CodeOptions say what the code of a plan is generated for, with settings.
func CodeOptions(ctx context.Context, view *kernel.View, p *plan.Plan, s Settings) (codegen.Options, error) {
	t := codegen.Options{
		Arch:     view.Arch(),
		Filtered: s.Filter.Active(),
		Limited:  s.Rate.Most > 0,
		Stacks:   s.Tail.Stack > 0 || s.Tail.UserStack > 0 || s.Tail.UserCopy > 0,
		Branches: s.Tail.Branches,
		TypeID:   typeIDs(ctx, view),
		Kfuncs:   findKfuncs(view),
	}
	types, err := view.BTF()
	if err != nil {
		return t, err
	}
	t.Guard = codegen.GuardFor(p.Layouts(), types)
	count, err := codegen.PreemptCount(t.Arch, types)
	if view.GivenTypes() {
		err = errors.New("ids of types in a file are not those of this kernel")
	}
	if err == nil {
		t.Subprograms = []bpf.Subprogram{count}
	} else if s.Filter.NoIRQ {
		return t, fmt.Errorf("leaving out what interrupts call: %w", err)
	}
	return t, nil
}

// typeIDs returns the BTF ids of vmlinux's types, if the kernel lets pointers be
// cast to them. It finds that out when it is first asked.
func typeIDs(ctx context.Context, view *kernel.View) func(btf.Type) (btf.TypeID, bool) {
	possible := sync.OnceValue(func() bool {
		return !view.GivenTypes() && ctx.Err() == nil && attach.CapRdonlyCast.ProbeWith(view.TypeCache()) == nil
	})
	return func(t btf.Type) (btf.TypeID, bool) {
		if !possible() {
			return 0, false
		}
		spec, err := view.BTF()
		if err != nil {
			return 0, false
		}
		id, err := spec.TypeID(t)
		return id, err == nil
	}
}

// findKfuncs finds the kernel's functions that generated code may call, when it is first asked.
func findKfuncs(view *kernel.View) func() codegen.Kfuncs {
	return sync.OnceValue(func() codegen.Kfuncs {
		types, err := view.BTF()
		if err != nil || view.GivenTypes() { // ids of a file are not those of the kernel
			return codegen.Kfuncs{}
		}
		return codegen.FindKfuncs(types)
	})
}
