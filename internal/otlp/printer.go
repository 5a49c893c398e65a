// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/typed"
)

// Options say what events become.
type Options struct {
	Spans bool // calls are spans, not log records
	// Exponential has hist() become exponential histograms, not histograms with explicit bounds.
	Exponential bool
	// Attributes are those of every resource. They replace ksnoop's own of the same names.
	Attributes []Attribute
	// Parent is the text of the item of a SPEC whose value says which span of its program a session or a
	// call belongs to; "": they belong to none. Parents, if it is not nil, counts what became of that.
	Parent  string
	Parents *Parents
	// Now is the present by the clock of the events, for what is said when no event came; nil: it
	// is the time of the newest event.
	Now func() uint64
}

// A Printer makes frames of the events of one run.
type Printer struct {
	run      output.Run
	options  Options
	zero     uint64 // time of day when the kernel's clock was zero, as of look
	machine  []byte
	sampler  *samples.Sampler
	values   *typed.Values
	contexts *output.Fields // to look for parents in
	tails    output.Tails
	known    resources

	now   uint64 // time of the newest event
	first uint64 // time of day from which losses count: of the oldest event before they were told first
	lost  [bpf.Counters]uint64
	told  uint64 // when losses were told last

	keys    *output.Fields
	builder *summary.Builder // nil before the first summary
	began   uint64           // time of day from which what is in builder counts
	stacks  summary.Stacks

	attrs  attributes
	text   []byte
	id     []byte
	frames []symbols.Frame
	failed []bool // by node: a call below it failed
}

// New returns a Printer of a run.
func New(run output.Run, o Options) *Printer {
	names := run.Names()
	return &Printer{run: run, options: o, machine: machine(&run), sampler: samples.New(&run), values: typed.New(names), contexts: output.NewFields(names),
		tails: output.SummaryTails(run), keys: output.NewKeys(names)}
}

// AppendHeader appends that resources of runs before are not meant.
func (p *Printer) AppendHeader(dst []byte) ([]byte, error) {
	return p.forget(dst), nil
}

// at returns the time of day of a time by the kernel's clock.
func (p *Printer) at(ns uint64) uint64 { return p.zero + min(ns, math.MaxInt64-p.zero) }

// look has at go by the time of day as it is by now. All that is said of one event goes by one.
func (p *Printer) look() {
	p.zero = 0
	if boot := p.run.BootNow(); !boot.IsZero() {
		p.zero = uint64(max(boot.UnixNano(), 0))
	}
}

// saw notes the time of an event.
func (p *Printer) saw(ns uint64) {
	p.look()
	if at := p.at(ns); p.told == 0 && (p.first == 0 || at < p.first) {
		p.first = at
	}
	p.now = max(p.now, ns)
}

// begin begins a message whose attributes are in a field. What is appended to p.attrs.body is in it.
func (p *Printer) begin(field protowire.Number) *attributes {
	p.attrs.body, p.attrs.field = p.attrs.body[:0], field
	p.attrs.hidden = p.options.Parent
	return &p.attrs
}

// append appends the message in p.attrs.body.
func (p *Printer) append(dst []byte, k Kind, resource, count uint64) []byte {
	f := Frame{k, resource, count, p.attrs.body}
	return f.append(dst)
}

// AppendLoss counts what is missing, and appends it if that was not done for a second.
func (p *Printer) AppendLoss(dst []byte, l event.Loss) []byte {
	if l.Time != 0 {
		p.saw(l.Time)
	}
	p.lost[l.Cause] += l.Count
	if p.now < p.told+second {
		return dst
	}
	return p.appendLosses(dst, p.now)
}

const second = 1_000_000_000

// AppendEnd appends all that is missing.
func (p *Printer) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	for cause, n := range t.Lost {
		p.lost[cause] = max(p.lost[cause], n)
	}
	p.look()
	now := p.now
	if p.options.Now != nil {
		now = p.options.Now()
	}
	return p.appendLosses(dst, now), nil
}
