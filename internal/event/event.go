// SPDX-License-Identifier: Apache-2.0

// Package event decodes raw records, from the ring buffer or from a recording. A record
// carries no types: the plan that it was made for gives its bytes their meaning.
//
// [Decode] checks a record and fills in an [Event], which says what happened, when, and in
// which thread. Values are then read by their slots ([Event.Value], [Event.Bytes]); stacks
// and branches are in its [Tail]. Records are untrusted input: a recording may be damaged.
package event

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// An Event is a decoded record: a function was called, or returned, or both.
type Event struct {
	bpf.Event
	Probe *plan.Probe
	// Owner is whose call it was, as far as Probe.Owner says. In sessions, the session has it.
	Owner bpf.Owner
	// Place tells the calls of a thread apart: the two records of one have the same. It is 0 if Record has none.
	Place uint64
	// Record is the layout of Data. It is nil if the record has no values.
	Record *layout.Record
	// Data are the captured bytes. They share the memory of the raw record.
	Data []byte
	// Tail has the stacks and branches after them. It shares that memory too.
	Tail Tail
	// Lost and Cause say how many records are missing at this place, and why. Only an event
	// of kind bpf.KindLost has them; it has no probe.
	Lost  uint64
	Cause bpf.Counter
}

// Decode decodes one raw record into e. e refers to raw afterwards.
func Decode(p *plan.Plan, raw []byte, e *Event) error {
	data, err := bpf.DecodeEvent(raw, &e.Event)
	if err != nil {
		return fmt.Errorf("decoding a record: %w", err)
	}
	if e.Kind == bpf.KindLost {
		return e.decodeLost(data)
	}
	if int(e.Event.Probe) >= len(p.Probes) {
		return fmt.Errorf("decoding a record: probe %d of %d", e.Event.Probe, len(p.Probes))
	}
	e.Probe = p.Probes[e.Event.Probe]
	var half *layout.Half
	switch e.Kind {
	case bpf.KindEntry:
		half = e.Probe.Entry
	case bpf.KindReturn, bpf.KindCall:
		half = e.Probe.Return
	}
	if half == nil || half.Record == nil {
		return fmt.Errorf("decoding a record: %s has none of kind %d", e.Probe.Func.Name, e.Kind)
	}
	e.Record = half.Record
	if len(data) < int(e.Record.Size) {
		return fmt.Errorf("decoding a record: %d bytes of values, %s has %d", len(data), e.Probe.Func.Name, e.Record.Size)
	}
	e.Owner = bpf.Owner{}
	if e.Probe.Owner != 0 {
		e.Owner = bpf.DecodeOwner(data)
	}
	e.Place = 0
	if e.Record.Placed {
		e.Place = binary.LittleEndian.Uint64(data[e.Record.Place:])
	}
	e.Data, e.Tail = data[:e.Record.Size], nil
	if !e.HasTail {
		return nil
	}
	e.Tail = Tail(data[e.Record.Size:])
	if err := checkTail(e.Tail); err != nil {
		return fmt.Errorf("decoding a record of %s: %w", e.Probe.Func.Name, err)
	}
	return nil
}

// All decodes a stream of raw records. It ends at the first error. An event is valid until
// the next one is asked for.
func All(p *plan.Plan, records iter.Seq2[[]byte, error]) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		var e Event
		for raw, err := range records {
			if err == nil {
				err = Decode(p, raw, &e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

func (e *Event) decodeLost(data []byte) (err error) {
	e.Probe, e.Record, e.Data, e.Tail = nil, nil, nil, nil
	if e.Cause, e.Lost, err = bpf.DecodeLost(&e.Event, data); err != nil {
		return fmt.Errorf("decoding a record: %w", err)
	}
	return nil
}

// Loss returns what an event of kind bpf.KindLost tells.
func (e *Event) Loss() Loss { return Loss{e.Cause, e.Lost, e.Time, e.CPU} }

// First reports whether the event is the first of its call. Each call has one such event.
func (e *Event) First() bool {
	switch e.Kind {
	case bpf.KindLost:
		return false
	case bpf.KindReturn:
		return e.Probe.Entry == nil || e.Probe.Entry.Record == nil
	}
	return true
}

// Bytes returns the captured bytes of a slot. ok is false if they could not be read.
func (e *Event) Bytes(s *layout.Slot) (b []byte, ok bool) {
	return e.Data[s.Off : s.Off+s.Size : s.Off+s.Size], e.Faults>>s.Index&1 == 0
}

// Value returns the value of a scalar's slot in register form. ok is false if it could not
// be read.
func (e *Event) Value(s *layout.Slot) (v uint64, ok bool) {
	b, ok := e.Bytes(s)
	return binary.LittleEndian.Uint64(b), ok
}
