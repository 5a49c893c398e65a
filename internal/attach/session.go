// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// SessionOptions are the options with which the plan of a session is attached:
// o with what the session itself says, and which sessions are to be reported. How
// many may be open at once is decided by how much memory there is if report does not say.
func SessionOptions(p *plan.Plan, o Options, report bpf.SessionSettings) (Options, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return o, fmt.Errorf("counting CPUs: %w", err)
	}
	report.CPUs, report.Condition = cpus, p.Conditional()
	report.Overrun = slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return byFprobe(p.Method) })
	report.Trampolines = slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return p.Role == layout.RoleEntry && p.Method.Trampoline() })
	report.InProcess = slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return p.Role == layout.RoleEntry && p.Method == layout.MethodUprobe })
	for _, f := range p.Probes {
		report.Values = report.Values || f.HasItems() || f.Args != nil
	}
	report.Arguments = argLists(p)
	if report.Count == 0 {
		memory, err := ownMemory()
		if err != nil {
			return o, err
		}
		report.Count = report.SessionsIn(memory)
	}
	o.Settings.Sessions = &report
	err = o.tellInterrupts()
	return o, err
}

// argLists returns what is captured of the arguments of each function, by its number, if anything is.
func argLists(p *plan.Plan) []bpf.ArgList {
	if !slices.ContainsFunc(p.Probes, func(f *plan.Probe) bool { return f.Args != nil }) {
		return nil
	}
	lists := make([]bpf.ArgList, len(p.Probes))
	for i, f := range p.Probes {
		if f.Args != nil {
			lists[i] = argList(f)
		}
	}
	return lists
}

// tellInterrupts lets programs, of functions and the engine's own, find out whether they
// run in an interrupt.
func (o *Options) tellInterrupts() error {
	for _, f := range o.Code.Subprograms {
		if f.Name == bpf.FuncPreemptCount {
			return nil
		}
	}
	types, err := o.Kernel.BTF()
	if err != nil {
		return fmt.Errorf("reading the kernel's types: %w", err)
	}
	count, err := codegen.PreemptCount(o.Code.Arch, types)
	if err != nil {
		return err
	}
	o.Code.Subprograms = append(slices.Clone(o.Code.Subprograms), count)
	return nil
}

// WatchHung calls ReportHung at intervals until ctx ends. An error, which may pass as a lack of memory does, is said once a
// minute at most.
func (t *Tracer) WatchHung(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(max(every, 10*time.Millisecond))
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := t.ReportHung(); err != nil && time.Since(said) >= time.Minute {
			said = time.Now()
			t.options.Log.Error("sessions that hang are not reported for now", "reason", err)
		}
	}
}

// ReportHung lets the kernel look through all threads for sessions that have
// been open for long, and send a record of each that it has not sent before.
func (t *Tracer) ReportHung() error {
	prog := t.engine.program(bpf.ProgSessionHung)
	if prog == nil {
		return nil
	}
	err := func() error {
		r, err := prog.iterate()
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(io.Discard, r)
		return err
	}()
	if err != nil {
		return fmt.Errorf("looking for sessions that hang: %w", err)
	}
	return nil
}

func argList(p *plan.Probe) bpf.ArgList {
	l := bpf.ArgList{Words: layout.ArgWords(p.Args), User: p.Syscall != nil}
	for _, a := range p.Args {
		if a.Withheld {
			l.Withheld |= (1<<a.Words - 1) << a.Word
		}
		if a.Target != nil {
			l.Targets = append(l.Targets, bpf.ArgTarget{Word: a.Word, Text: a.Text, Size: a.Size})
		}
	}
	return l
}

// OpenSessions returns how many sessions are open now.
func (t *Tracer) OpenSessions() (n uint32, err error) {
	if err := t.engine.variable(bpf.VarOpenSessions).Get(&n); err != nil {
		return 0, fmt.Errorf("reading the number of open sessions: %w", err)
	}
	return n, nil
}
