// SPDX-License-Identifier: Apache-2.0

// Package overview adds up calls and sessions that would else be printed, by function and error:
// --summary. It is for any request, live or recorded, since it sees the events themselves. What
// happens too often to be sent is added up in the kernel by the aggregations of a SPEC instead.
//
// The tables are those of aggregations that nobody has written, so every format that prints
// summaries prints them:
//
//	count()[$func, error]       calls by function and error
//	quantiles($duration)[$func] of calls of which both ends are known
//	count()[error, leaf]        sessions by error and innermost failing function
//	stats(total)[$func]         of recorded calls in sessions: from entry to return
//	stats(self)[$func]          without the recorded calls that they made
//	stats(off_cpu)[$func]       of the total, while the thread was off the CPU
//	stats(self_off_cpu)[$func]  of the time in themselves
//
// The last two are there if sessions have off-CPU times.
package overview

import (
	"encoding/binary"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/layout"
)

// A TablePrinter is the printer of a format that has tables.
type TablePrinter interface {
	AppendHeader(dst []byte) ([]byte, error)
	AppendLoss(dst []byte, l event.Loss) []byte
	AppendSummary(dst []byte, s *summary.Summary) ([]byte, error)
	AppendEnd(dst []byte, t *output.Totals) ([]byte, error)
}

// A Printer adds up calls or sessions and prints tables at the end.
type Printer struct {
	TablePrinter
	sampler     *samples.Sampler
	tables      *summary.Tables
	builder     *summary.Builder
	timed       bool
	start, last uint64
}

// Types and terms of the tables.
var (
	number   = &btf.Int{Name: "unsigned long", Size: 8}
	duration = &expr.ContextTerm{T: number, Var: expr.ContextDuration}
	function = expr.Capture{Label: "$func", Value: &expr.ContextTerm{T: number, Var: expr.ContextFunc}}
	leaf     = expr.Capture{Label: "leaf", Value: function.Value}
	failure  = expr.Capture{Label: "error", Target: &expr.Text{T: &btf.Array{Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: errorSize}, Max: errorSize}}
)

// errorSize is more than the length of an error's name.
const errorSize = 24

// Numbers of the tables.
const (
	byError   = iota     // calls or sessions
	durations            // of calls
	totals    = iota - 1 // in sessions
	selves
	offCPU
	selfOffCPU
)

// New returns a Printer of a run, which prints as p does. timed says that sessions have off-CPU times.
func New(run *output.Run, timed bool, p TablePrinter) *Printer {
	all := []*expr.Aggregation{{Fn: expr.AggCount, Label: "count()", Keys: []expr.Capture{function, failure}},
		{Fn: expr.AggQuantiles, Label: "quantiles($duration)", Value: duration, Of: "$duration", Unit: expr.UnitNanos, Sub: expr.QuantilesSub, Keys: []expr.Capture{function}}}
	if run.Plan.Sessions {
		all = []*expr.Aggregation{{Fn: expr.AggCount, Label: "count()", Keys: []expr.Capture{failure, leaf}}}
		names := []string{"total", "self", "off_cpu", "self_off_cpu"}
		if !timed {
			names = names[:2]
		}
		for _, name := range names {
			all = append(all, &expr.Aggregation{Fn: expr.AggStats, Label: "stats(" + name + ")", Value: duration, Of: name, Unit: expr.UnitNanos, Keys: []expr.Capture{function}})
		}
	}
	tables := &summary.Tables{}
	for _, g := range all {
		tables.List = append(tables.List, &summary.Table{Agg: g, Key: layout.KeyOf(g), Probes: run.Plan.Probes})
	}
	return &Printer{TablePrinter: p, sampler: samples.New(run), tables: tables, builder: summary.NewBuilder(tables), timed: timed}
}

// AppendCall adds a call and appends nothing yet.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	s, err := p.sampler.Call(c)
	if err != nil || s == nil {
		return dst, err
	}
	last := c.Last()
	from, known := samples.Entered(c)
	if !known {
		from = last.Time
	}
	p.saw(from, last.Time)
	p.add(byError, 0, last.Probe, s.Errno)
	if known {
		p.add(durations, s.Time, last.Probe)
	}
	return dst, nil
}

// AppendSession adds a session and the calls in it, and appends nothing yet. One that has not
// ended is reported again.
func (p *Printer) AppendSession(dst []byte, x *session.Session) ([]byte, error) {
	if x.State == session.Running || x.State == session.Hung {
		return dst, nil
	}
	p.saw(x.Start, x.End)
	innermost := x.Func
	if n := len(x.Chain.Frames); x.Failed && n > 0 {
		innermost = x.Chain.Frames[n-1].Func
	}
	p.add(byError, 0, samples.SessionErrno(x), innermost)
	nodes := p.sampler.Nodes(x)
	for i := range nodes {
		n := &nodes[i]
		p.add(totals, n.Duration, n.Func)
		p.add(selves, n.Self(), n.Func)
		if p.timed && x.HasOffCPU {
			p.add(offCPU, n.OffCPU, n.Func)
			p.add(selfOffCPU, n.SelfOffCPU(), n.Func)
		}
	}
	return dst, nil
}

// AppendEnd appends the tables and the format's end.
func (p *Printer) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	dst, err := p.AppendSummary(dst, &summary.Summary{Start: p.start, End: p.last, Tables: p.builder.Take(), Last: true})
	if err != nil {
		return dst, err
	}
	return p.TablePrinter.AppendEnd(dst, t)
}

func (p *Printer) saw(from, to uint64) {
	if p.start == 0 || from < p.start {
		p.start = from
	}
	p.last = max(p.last, to)
}

// add adds a value to the row of keys: probes and names of errors.
func (p *Printer) add(table int, x uint64, keys ...any) {
	t := p.tables.List[table]
	key := make([]byte, t.Key.Size)
	for i, s := range t.Key.Slots {
		switch k := keys[i].(type) {
		case *plan.Probe:
			binary.LittleEndian.PutUint64(key[s.Off:], uint64(k.ID))
		case string:
			copy(key[s.Off:s.Off+s.Size], k)
		}
	}
	t.Agg.Accumulate(p.builder.Words(table, key, 0), x)
}
