// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A summing adds up the calls of a recording.
type summing struct {
	tables      *summary.Tables
	builder     *summary.Builder
	key         []byte
	stacks      []summary.Stack   // by number, from 1 on
	numbers     map[string]uint64 // of stacks
	start, last uint64
}

// begin begins to add up what the probes of a plan ask for.
func (s *summing) begin(p *plan.Plan) {
	s.tables = summary.Of(p)
	s.builder, s.numbers = summary.NewBuilder(s.tables), map[string]uint64{}
}

// seen notes the time of a record.
func (s *summing) seen(time uint64) {
	if s.start == 0 {
		s.start = time
	}
	s.last = max(s.last, time)
}

// Summary returns what was added up of the records so far; nil if nothing is to be.
func (a *Answer) Summary() *summary.Summary {
	if a.summing.tables == nil || len(a.summing.tables.List) == 0 {
		return nil
	}
	return &summary.Summary{Start: a.summing.start, End: a.summing.last, Tables: a.summing.builder.Take(), Last: true, Stacks: &a.summing}
}

// addUp adds the machine's call to the tables of an answer. e is the record of the moment at which
// that happens.
func (a *Answer) addUp(ans *answer, e *event.Event) {
	if !a.span.has(e.Time) {
		return
	}
	for i := range ans.sums {
		s := &ans.sums[i]
		x, ok := a.valueOf(ans, s)
		if !ok {
			continue
		}
		faults, known := a.keyOf(ans, s, e)
		if !known {
			a.counts.Partial++
		}
		words := a.summing.builder.Words(a.summing.tables.Index(int(ans.id), s.item), a.summing.key, faults)
		s.agg.Accumulate(words, x)
	}
}

// valueOf computes what is added up. A call that has no value is counted instead.
func (a *Answer) valueOf(ans *answer, s *addition) (x uint64, ok bool) {
	if s.value == nil {
		return 0, true
	}
	m := &ans.machine
	m.missing, m.unsure, m.unreadableArg = false, false, false
	x, err := m.eval(s.value)
	switch {
	case err == nil:
		return x, true
	case m.missing && m.entry == nil:
		a.counts.NoEntry++
	case m.missing || m.unsure:
		a.counts.Unsure++
	default:
		a.counts.Faults++
	}
	return 0, false
}

// keyOf makes the key of a row, in which what could not be read is 0. known is false if the
// recording does not tell what that was.
func (a *Answer) keyOf(ans *answer, s *addition, e *event.Event) (faults uint64, known bool) {
	a.summing.key = append(a.summing.key[:0], make([]byte, s.key.Size)...)
	known = true
	m := &ans.machine
	for i := range s.fills {
		f := &s.fills[i]
		to := a.summing.key[f.slot.Off:][:f.slot.Size]
		m.missing, m.unsure, m.unreadableArg = false, false, false
		switch f.how {
		case byFunc:
			binary.LittleEndian.PutUint64(to, uint64(ans.id))
			continue
		case byStack, byUserStack:
			binary.LittleEndian.PutUint64(to, a.summing.number(m, e, f.how == byUserStack))
			continue
		}
		if !f.into(a.summing.key, m) {
			clear(to)
			faults |= 1 << f.slot.Index
			known = known && !m.unsure && !m.missing
			continue
		}
		tidy(to, f.slot.Term)
	}
	return faults, known
}

// tidy clears what is behind a string or a buffer.
func tidy(b []byte, t expr.Term) {
	switch t.(type) {
	case *expr.Text:
		if end := slices.Index(b, 0); end >= 0 {
			clear(b[end:])
		}
	case *expr.Buffer:
		n := binary.LittleEndian.Uint64(b)
		clear(b[8+min(n, uint64(len(b)-8)):])
	}
}

// number returns the number of the stack that was recorded with a call; 0 if there is none.
func (s *summing) number(m *machine, e *event.Event, user bool) uint64 {
	kind := bpf.SectionStack
	if user {
		kind = bpf.SectionUserStack
	}
	section, ok := e.Tail.Section(kind)
	for _, other := range [...]*event.Event{m.ret, m.entry} {
		if !ok && other != nil {
			section, ok = other.Tail.Section(kind)
		}
	}
	if !ok || len(section.Data) == 0 {
		return 0
	}
	task := uint32(0) // of a stack in user space: addresses are names in its process only
	if user {
		task = e.PID
	}
	key := binary.LittleEndian.AppendUint32([]byte{byte(kind)}, task)
	key = append(key, section.Data...)
	if n, known := s.numbers[string(key)]; known {
		return n
	}
	s.stacks = append(s.stacks, summary.Stack{Addresses: event.AppendAddresses(nil, section), Cut: section.Cut && !section.Caller, Task: e.Event})
	n := uint64(len(s.stacks))
	s.numbers[string(key)] = n
	return n
}

// Stack implements summary.Stacks.
func (s *summing) Stack(number uint64, _ bool) (summary.Stack, bool) {
	if number == 0 || number > uint64(len(s.stacks)) {
		return summary.Stack{}, false
	}
	return s.stacks[number-1], true
}
