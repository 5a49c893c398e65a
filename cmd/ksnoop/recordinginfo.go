// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// An inventory is what is in a recording.
type inventory struct {
	records, sessions uint64
	first, last       uint64 // times
	byProbe           []uint64
}

// see notes a time and what was recorded then.
func (v *inventory) see(p *plan.Probe, from, to uint64) {
	if v.records+v.sessions == 0 {
		v.first = from
	}
	v.first, v.last = min(v.first, from), max(v.last, to)
	v.byProbe[p.ID]++
}

// take reads a recording to its end.
func (v *inventory) take(r *record.Reader) error {
	v.byProbe = make([]uint64, len(r.Plan().Probes))
	if how := r.Info().Sessions; how != nil {
		d := &session.Decoder{Plan: r.Plan(), Traced: how.Traced, Live: how.Live}
		for s, err := range d.Sessions(r.Records()) {
			if err != nil {
				return err
			}
			if s.State == session.Missing || s.State == session.Running {
				continue
			}
			v.see(s.Func, s.Start, s.End)
			v.sessions++
		}
		return nil
	}
	for e, err := range event.All(r.Plan(), r.Records()) {
		if err != nil {
			return err
		}
		if e.Kind != bpf.KindLost {
			v.see(e.Probe, e.Time, e.Time)
			v.records++
		}
	}
	return nil
}

// Limits of what --info lists. A recording may have a hundred thousand functions.
const (
	maxInfoSpecs = 20
	maxInfoFuncs = 40
	maxInfoText  = 200 // bytes of a SPEC
)

// describe says what is in a recording. It returns the error that reading it to the end met.
func describe(w io.Writer, r *record.Reader) error {
	v := &inventory{}
	failed := v.take(r)
	info := r.Info()
	row := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%-9s  %s\n", what, terminal.Name(fmt.Sprintf(format, args...)))
	}
	row("writer", "ksnoop %s", info.Writer)
	release, err := r.Kernel().Release()
	if err != nil {
		release = "of unknown release"
	}
	row("kernel", "%s, %s", release, info.Arch)
	if info.Host != "" {
		row("host", "%s", info.Host)
	}
	v.times(row, info.Boot)
	if len(info.Options) > 0 {
		row("options", "%s", shorten(fmt.Sprintf("%q", info.Options), maxInfoText))
	}
	if how := info.Sessions; how != nil {
		row("sessions", "%d%s", v.sessions, sessionKinds(how))
	} else {
		row("records", "%d", v.records)
	}
	v.specs(row, r.Plan())
	v.functions(row, r.Plan())
	lost := r.Losses()
	none := true
	for cause, n := range lost.Lost {
		if n > 0 {
			row("lost", "%s", output.LossCount(bpf.Counter(cause), n))
			none = false
		}
	}
	if none && failed == nil {
		row("lost", "nothing")
	}
	for _, s := range r.Sizes() {
		n, noun, _ := strings.Cut(plural.Of(s.Blocks, "block{s}"), " ")
		row("blocks", "%-20s %6s %-6s %12d bytes %12d when decompressed", s.Kind, n, noun, s.Packed, s.Bytes)
	}
	return failed
}

// sessionKinds says what was recorded of sessions.
func sessionKinds(how *record.Sessions) (text string) {
	for _, kind := range [...]struct {
		on   bool
		what string
	}{{how.Traced, "all calls"}, {how.Live, "as they happened"}, {how.Args, "all arguments"}, {how.Branches, "branches"}, {how.OffCPU, "off-CPU times"}} {
		if kind.on {
			text += ", " + kind.what
		}
	}
	return text
}

// times says from when to when the recording goes.
func (v *inventory) times(row func(string, string, ...any), boot time.Time) {
	if v.records+v.sessions == 0 {
		return
	}
	at := func(ns uint64) string { return fmt.Sprintf("%d.%06d", ns/1e9, ns%1e9/1e3) }
	row("time", "%s to %s: %v", at(v.first), at(v.last), time.Duration(v.last-v.first))
	if !boot.IsZero() {
		row("date", "%s", boot.Add(time.Duration(v.first)).Format("2006-01-02 15:04:05.000000 -07:00"))
	}
}

// specs lists the SPECs.
func (v *inventory) specs(row func(string, string, ...any), p *plan.Plan) {
	n := 0
	var last *expr.Spec
	for _, probe := range p.Probes {
		if probe.Spec == nil || probe.Spec == last {
			continue
		}
		last = probe.Spec
		if n++; n <= maxInfoSpecs {
			row("SPEC", "%s", shorten(probe.Spec.Text, maxInfoText))
		}
	}
	if n > maxInfoSpecs {
		row("SPEC", "... %d more", n-maxInfoSpecs)
	}
}

// functions lists functions, those with the most records first. Of sessions, only functions that
// open one have any.
func (v *inventory) functions(row func(string, string, ...any), p *plan.Plan) {
	sorted := slices.Clone(p.Probes)
	slices.SortStableFunc(sorted, func(a, b *plan.Probe) int { return cmp.Compare(v.byProbe[b.ID], v.byProbe[a.ID]) })
	for i, probe := range sorted {
		if i == maxInfoFuncs {
			row("function", "... %d more", len(sorted)-i)
			return
		}
		row("function", "%8d  %-12s %s", v.byProbe[probe.ID], probe.Method, probe.Name)
	}
}
