// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"math"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/typed"
)

// defaultLimit bounds the memory for what is named by numbers, in bytes.
const defaultLimit = 32 << 20

// A slice is a call of a session with its place in time.
type slice struct {
	node       int
	begin, end uint64
}

// A Printer writes a trace.
type Printer struct {
	run     output.Run
	clock   uint64 // of the trace: its ID
	zero    uint64 // what it showed when the kernel's clock was zero
	limit   int
	sampler *samples.Sampler
	values  *typed.Values
	tables  tables
	now     uint64 // time of the newest event
	gaps    bool   // something was lost

	body   []byte // of the event that is being made
	text   []byte
	frames []symbols.Frame
	slices []slice
	open   []int
}

// New returns a Printer of a run.
func New(r output.Run) *Printer {
	p := &Printer{run: r, clock: clockMonotonic, limit: defaultLimit, sampler: samples.New(&r), values: typed.New(r.Names())}
	if r.Number > 0 { // the clocks of several hosts have only the time of day in common
		p.clock, p.zero = clockRealtime, p.booted()
	}
	p.tables.reset()
	return p
}

// booted returns the time of day at which the kernel's clock was zero, 0 if it is not known.
func (p *Printer) booted() uint64 {
	if ns := p.run.Boot.UnixNano(); !p.run.Boot.IsZero() && ns > 0 {
		return uint64(ns)
	}
	return 0
}

// sequence is the ID of the sequence of packets of a run: each refers to its own tables.
func (p *Printer) sequence() uint64 { return uint64(max(p.run.Number, 1)) }

// AppendHeader appends the trace's clocks. Those of several runs say the same.
func (p *Printer) AppendHeader(dst []byte) ([]byte, error) {
	dst, packet := protomsg.Begin(dst, tracePacket)
	dst = protomsg.AppendUint(dst, packetSequenceID, p.sequence())
	dst, snapshot := protomsg.Begin(dst, packetClockSnapshot)
	dst = appendClock(dst, p.clock, 0)
	if at := p.booted(); p.clock == clockMonotonic && at > 0 {
		dst = appendClock(dst, clockRealtime, at)
	}
	dst = protomsg.End(protomsg.AppendUint(dst, snapshotPrimary, p.clock), snapshot)
	return p.restart(protomsg.End(dst, packet)), nil
}

// appendClock appends what a clock showed when the kernel's monotonic clock was zero.
func appendClock(dst []byte, id, ns uint64) []byte {
	dst, start := protomsg.Begin(dst, snapshotClocks)
	return protomsg.End(protomsg.AppendUint(protomsg.AppendUint(dst, clockID, id), clockTimestamp, ns), start)
}

// restart begins the tables anew.
func (p *Printer) restart(dst []byte) []byte {
	p.tables.reset()
	dst, packet := protomsg.Begin(dst, tracePacket)
	dst = protomsg.AppendUint(protomsg.AppendUint(dst, packetSequenceID, p.sequence()), packetSequenceFlags, stateCleared)
	dst, defaults := protomsg.Begin(dst, packetDefaults)
	dst = protomsg.End(protomsg.AppendUint(dst, defaultsClockID, p.clock), defaults)
	return protomsg.End(dst, packet)
}

// bounded begins the tables anew if they have become too large.
func (p *Printer) bounded(dst []byte) []byte {
	if p.tables.size <= p.limit {
		return dst
	}
	return p.restart(dst)
}

// appendEvent appends the event in p.body, before it the table entries that it is the first
// to use. It happened at a time, on a track.
func (p *Printer) appendEvent(dst []byte, at uint64, on track, kind uint64) []byte {
	p.now = max(p.now, at)
	dst, packet := protomsg.Begin(dst, tracePacket)
	dst = protomsg.AppendUint(dst, packetTimestamp, p.zero+min(at, math.MaxInt64-p.zero)) // the reader has them signed
	dst = protomsg.AppendUint(protomsg.AppendUint(dst, packetSequenceID, p.sequence()), packetSequenceFlags, needsState)
	if fresh := p.tables.take(); len(fresh) > 0 {
		dst = protomsg.AppendString(dst, packetInternedData, fresh)
	}
	dst, start := protomsg.Begin(dst, packetTrackEvent)
	dst = protomsg.AppendUint(protomsg.AppendUint(dst, eventType, kind), eventTrack, p.uuid(on))
	return protomsg.End(protomsg.End(append(dst, p.body...), start), packet)
}

// name begins the body of an event with a name and a category.
func (p *Printer) name(name, category string) {
	id := p.tables.name(internedEventNames, name)
	p.body = protomsg.AppendUint(p.body[:0], eventName, id)
	p.body = protomsg.AppendUint(p.body, eventCategory, p.tables.name(internedCategories, category))
}

// callstack adds a stack to the body, outermost first.
func (p *Printer) callstack(frames []symbols.Frame) {
	if len(frames) > 0 {
		p.body = protomsg.AppendUint(p.body, eventCallstack, p.tables.callstack(frames))
	}
}

// Categories of events.
const (
	categoryCall   = "call"
	categoryFailed = "failed"
	categoryLost   = "lost"
)

// AppendCall appends a call: a slice if both its ends are known, otherwise an instant.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	base := len(dst)
	s, err := p.sampler.Call(c)
	if err != nil {
		return dst, err
	}
	last := c.Last()
	dst = p.bounded(dst)
	on := threadTrack(last.PID, last.TID, last.CPU)
	dst = p.appendTrack(dst, on, s.Comm, "")
	p.name(last.Probe.Name, category(s.Errno))
	p.callstack(s.Stack)
	p.uint("cpu", uint64(last.CPU))
	p.owner(last.Owner)
	entered, isSlice := samples.Entered(c)
	isSlice = isSlice || c.End == calls.Open && !p.gaps // else its return may be among what is lost
	if note := incomplete[c.End]; note != "" {
		p.string("incomplete", note)
	}
	first := c.Return
	if c.Entry != nil {
		first = c.Entry
	}
	if err := p.values.Record(p.annotations(), first); err != nil {
		return dst[:base], err
	}
	if isSlice {
		if c.Return == nil {
			return p.appendEvent(dst, last.Time, on, typeBegin), nil
		}
		dst = p.appendEvent(dst, entered, on, typeBegin)
		p.body = p.body[:0]
	}
	if c.Entry != nil && c.Return != nil {
		if err := p.values.Record(p.annotations(), c.Return); err != nil {
			return dst[:base], err
		}
	}
	if s.Errno != "" {
		p.string("errno", s.Errno)
	}
	if isSlice {
		return p.appendEvent(dst, last.Time, on, typeEnd), nil
	}
	return p.appendEvent(dst, last.Time, on, typeInstant), nil
}

// category returns the category of a call.
func category(errno string) string {
	if errno != "" {
		return categoryFailed
	}
	return categoryCall
}

// incomplete says why half of a call is missing.
var incomplete = [...]string{
	calls.NoEntry: "its entry was not recorded",
	calls.Open:    "it had not returned by the end",
	calls.Evicted: "its return was no longer waited for: too many calls were open, or records were lost",
	calls.Gap:     "",
}

// losses is the track of what is missing.
var losses = track{kind: trackOfLosses}

// AppendLoss appends an instant where records are missing.
func (p *Printer) AppendLoss(dst []byte, l event.Loss) []byte {
	p.gaps = true
	at := l.Time
	if at == 0 {
		at = p.now
	}
	return p.appendLost(p.bounded(dst), at, output.LossText(l.Cause), l.Count)
}

// appendLost appends an instant on the track of losses.
func (p *Printer) appendLost(dst []byte, at uint64, what string, n uint64) []byte {
	dst = p.appendTrack(dst, losses, "lost", "")
	p.name(what, categoryLost)
	p.uint("count", n)
	return p.appendEvent(dst, at, losses, typeInstant)
}

// AppendEnd appends nothing: each event is whole.
func (*Printer) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) { return dst, nil }
