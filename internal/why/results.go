// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// A function that takes no probe still calls others that do. What these returned tells which way its
// code went where it tests a result: __do_sys_setns of a file that is no namespace calls pidfd_pid, which
// returns an error.

// results runs the command once more, and returns what the functions returned that are called by the
// one that takes no probe. It is not for a process that runs.
func (r *Runner) results(ctx context.Context, seen *Seen, chosen int, p *Place) ([]code.Called, error) {
	s, ok := r.Kernel.SymbolNamed(p.Inside, "")
	if !ok {
		return nil, nil
	}
	text, err := attach.OpenText()
	if err != nil {
		return nil, err
	}
	defer text.Close()
	called, err := r.Kernel.SelectAt(newCallGraph(r.Kernel, text).node(s.Addr).callees)
	if err != nil {
		return nil, err
	}
	f := &seen.Calls[chosen]
	request := &plan.SessionRequest{}
	if request.Entry, err = trace.ParseSpecs([]string{f.Function}); err != nil {
		return nil, err
	}
	if request.Allow, err = trace.ParseSpecs(tellingSpecs(called)); err != nil || len(request.Allow) == 0 {
		return nil, err
	}
	request.Optional = request.Allow
	report := bpf.SessionSettings{Traced: true, Errors: errorSet(f.Errno)}
	c := resultTaker{nth: r.ordinal(seen, chosen)}
	_, err = r.run(ctx, true, trace.Request{Sessions: request, Options: plan.Options{Arch: r.Kernel.Arch()}}, trace.Settings{Report: report}, c.take)
	if err == nil {
		p.Runs++
	}
	return c.results(), err
}

// tellingSpecs are the SPECs of those functions whose result may be tested and is known by type.
func tellingSpecs(functions []kernel.Function) (specs []string) {
	for _, f := range functions {
		if resultSize(&f) > 0 && !matches(noise, f.Name) && !plan.UsedByTracing(f) {
			specs = append(specs, f.String())
		}
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

// resultSize returns how many bytes of the result register a function sets; 0 if that is not known.
func resultSize(f *kernel.Function) int {
	if f.Type == nil {
		return 0
	}
	proto, ok := f.Type.Type.(*btf.FuncProto)
	if !ok || result(proto) == nil {
		return 0
	}
	size := uint32(0) // of a struct, which may be returned in memory
	switch t := btf.UnderlyingType(proto.Return).(type) {
	case *btf.Pointer:
		size = 8
	case *btf.Int:
		size = t.Size
	case *btf.Enum:
		size = t.Size
	}
	if size > 8 { // in two registers
		return 0
	}
	return int(size)
}

// A resultTaker takes the results of what was called in one session: the nth that has failed so.
type resultTaker struct {
	nth      int
	sessions int
	missing  bool // sessions were lost: it is not known which is the nth
	called   []code.Called
}

// results returns them; nil if that session was not seen. Those of another one do not go with
// the arguments of the call.
func (c *resultTaker) results() []code.Called {
	if c.sessions <= c.nth || c.missing {
		return nil
	}
	return c.called
}

func (c *resultTaker) take(p *plan.Plan, records recordSeq) error {
	decoder := &session.Decoder{Plan: p, Traced: true}
	for s, err := range decoder.Sessions(records) {
		if err != nil {
			return err
		}
		c.add(s)
	}
	return nil
}

// add takes one session.
func (c *resultTaker) add(s *session.Session) {
	switch {
	case c.sessions > c.nth:
	case s.State == session.Missing:
		c.missing = true
	case s.State == session.Returned:
		if c.sessions++; c.sessions > c.nth && !s.Lost.Any() {
			c.called = calledIn(s.Calls())
		}
	}
}

// calledIn returns what the functions returned that the first call has called. Those that returned
// different things, and those whose return was not seen, are left out.
func calledIn(calls []session.Call) (called []code.Called) {
	var unsure []uint64
	for i := range calls {
		c := &calls[i]
		if c.Parent != 0 {
			continue
		}
		f := &c.Func.Func
		size := resultSize(f)
		value := c.Result & (uint64(1)<<(8*size) - 1)
		at := slices.IndexFunc(called, func(o code.Called) bool { return o.Addr == f.Addr })
		switch {
		case !c.Finished, size == 0, at >= 0 && called[at].Result != value:
			unsure = append(unsure, f.Addr)
		case at >= 0:
			called[at].Calls++
		default:
			called = append(called, code.Called{Addr: f.Addr, Result: value, Size: size, Calls: 1})
		}
	}
	return slices.DeleteFunc(called, func(c code.Called) bool { return slices.Contains(unsure, c.Addr) })
}
