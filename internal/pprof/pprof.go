// SPDX-License-Identifier: Apache-2.0

// Package pprof writes profiles that "go tool pprof" opens: how often functions were called
// from where, how long they took and where failures began.
//
// Samples have the labels pid, comm, function and errno, so that a profile also answers by
// which process (-tagfocus, -tagroot).
package pprof

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Printer builds a profile and writes it at the end.
type Printer struct {
	boot    time.Time
	sampler *samples.Sampler
	table   table
	first   uint64 // CLOCK_MONOTONIC ns of the first and the last call
	last    uint64
	merged  uint64
	unknown uint64 // calls that may have failed
}

// New returns a Printer of a run.
func New(r output.Run) *Printer {
	return &Printer{boot: r.Boot, sampler: samples.New(&r), table: newTable(defaultLimit), first: math.MaxUint64}
}

// AppendHeader appends nothing.
func (*Printer) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendCall adds a call and appends nothing yet.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	s, err := p.sampler.Call(c)
	if err != nil {
		return dst, err
	}
	last := c.Last()
	entered, ok := samples.Entered(c)
	if !ok {
		entered = last.Time
	}
	p.during(entered, last.Time)
	p.add(s)
	return dst, nil
}

// AppendSession adds the calls of a session and appends nothing yet.
func (p *Printer) AppendSession(dst []byte, x *session.Session) ([]byte, error) {
	for s := range p.sampler.Session(x) {
		p.during(x.Start, x.End)
		p.add(s)
	}
	return dst, nil
}

// AppendLoss appends nothing: what is missing has no stack.
func (*Printer) AppendLoss(dst []byte, _ event.Loss) []byte { return dst }

// during extends the time of the profile.
func (p *Printer) during(from, to uint64) { p.first, p.last = min(p.first, from), max(p.last, to) }

func (p *Printer) add(s *samples.Sample) {
	if s.Unknown {
		p.unknown++
	}
	if !p.table.add(s) {
		p.merged++
		p.table.addOther(s)
	}
}

// AppendEnd appends the profile, compressed.
func (p *Printer) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) {
	out := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "calls", Unit: "count"}, {Type: "time", Unit: "nanoseconds"}, {Type: "errors", Unit: "count"}},
		Sample:     p.table.samples, Location: p.table.locations, Function: p.table.functions,
		DefaultSampleType: "calls",
	}
	for _, s := range out.Sample {
		if s.Value[1] > 0 {
			out.DefaultSampleType = "time"
			break
		}
	}
	if p.last >= p.first {
		out.DurationNanos = int64(min(p.last-p.first, math.MaxInt64))
		if !p.boot.IsZero() {
			out.TimeNanos = p.boot.Add(time.Duration(min(p.first, math.MaxInt64))).UnixNano()
		}
	}
	if p.merged > 0 {
		out.Comments = append(out.Comments, plural.Of(p.merged, "sample{s} {is|are} merged in ")+others)
	}
	if p.unknown > 0 {
		out.Comments = append(out.Comments, "errors: unknown for "+plural.Of(p.unknown, "call{s}, whose result{s} {was|were} not captured"))
	}
	if err := out.CheckValid(); err != nil {
		return dst, fmt.Errorf("writing a profile: %w", err)
	}
	buffer := bytes.NewBuffer(dst)
	if err := out.Write(buffer); err != nil {
		return dst, fmt.Errorf("writing a profile: %w", err)
	}
	return buffer.Bytes(), nil
}

// Merge adds up what was written of several runs.
func Merge(runs [][]byte) ([]byte, error) {
	profiles := make([]*profile.Profile, len(runs))
	for i, text := range runs {
		var err error
		if profiles[i], err = profile.ParseData(text); err != nil {
			return nil, fmt.Errorf("reading a profile again: %w", err)
		}
	}
	all, err := profile.Merge(profiles)
	if err != nil {
		return nil, fmt.Errorf("adding up profiles: %w", err)
	}
	var out bytes.Buffer
	if err := all.Write(&out); err != nil {
		return nil, fmt.Errorf("writing a profile: %w", err)
	}
	return out.Bytes(), nil
}
