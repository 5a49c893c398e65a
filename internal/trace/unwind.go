// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"sync/atomic"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// An unwinding replaces the copies of stacks in records by the stacks that they tell. Whatever
// reads the records, recordings included, sees no copy: those are large, and have what
// programs keep secret.
type unwinding struct {
	unwinder *process.Unwinder
	plan     *plan.Plan
	event    event.Event
	raw      []byte // valid until the next record
	tooShort atomic.Uint64
}

// record returns a record with its stack.
func (u *unwinding) record(raw []byte) ([]byte, error) {
	if u.plan.Sessions {
		return u.session(raw)
	}
	e := &u.event
	if err := event.Decode(u.plan, raw, e); err != nil {
		return nil, err
	}
	if e.Kind == bpf.KindLost {
		return raw, nil
	}
	s, ok := e.Tail.Section(bpf.SectionUserCopy)
	if !ok {
		return raw, nil
	}
	stack, short := u.unwinder.Unwind(&e.Event, s)
	if short {
		u.tooShort.Add(1)
	}
	var err error
	u.raw, err = bpf.ReplaceSection(u.raw[:0], raw, len(raw)-len(e.Tail), bpf.SectionUserCopy, &stack)
	return u.raw, err
}

// session is record for that of a session.
func (u *unwinding) session(raw []byte) ([]byte, error) {
	var h bpf.SessionHeader
	if bpf.IsLost(raw) {
		return raw, nil
	}
	if _, err := bpf.DecodeSession(raw, &h); err != nil {
		return nil, err
	}
	s, ok := event.Tail(h.Tail).Section(bpf.SectionUserCopy)
	if !ok {
		return raw, nil
	}
	e := h.Event()
	stack, short := u.unwinder.Unwind(&e, s)
	if short {
		u.tooShort.Add(1)
	}
	var err error
	u.raw, err = bpf.ReplaceSection(u.raw[:0], raw, len(raw)-len(h.Tail), bpf.SectionUserCopy, &stack)
	return u.raw, err
}

// short returns how many stacks were not copied far enough.
func (u *unwinding) short() uint64 {
	if u == nil {
		return 0
	}
	return u.tooShort.Load()
}
