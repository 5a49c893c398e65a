// SPDX-License-Identifier: Apache-2.0

package record

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// A userNamer finds what a replay needs to name the frames of stacks of processes.
type userNamer struct {
	recorder *process.Recorder
	plan     *plan.Plan
	event    event.Event
	frames   []bpf.UserFrame
	block    []byte // of lines that are not recorded yet
}

// newUserNamer returns nil if there is nothing to find.
func newUserNamer(s *Source, p *plan.Plan) *userNamer {
	if s.Users == nil {
		return nil
	}
	return &userNamer{recorder: s.Users.NewRecorder(), plan: p}
}

// scan looks at a record.
func (n *userNamer) scan(raw []byte) {
	e := &n.event
	if n.plan.Sessions {
		var h bpf.SessionHeader
		if bpf.IsLost(raw) {
			return
		}
		if _, err := bpf.DecodeSession(raw, &h); err != nil {
			return
		}
		e.Event, e.Tail = h.Event(), h.Tail
	} else if event.Decode(n.plan, raw, e) != nil || e.Kind == bpf.KindLost {
		return
	}
	if s, ok := e.Tail.Section(bpf.SectionUserStack); ok {
		n.frames, _ = event.AppendUserFrames(n.frames[:0], s)
		n.block = n.recorder.Append(n.block, &e.Event, n.frames)
	}
}

// User returns the names of the addresses of an event's process, as far as they were recorded. They
// are known when the event is read.
func (r *Reader) User(e *bpf.Event) *process.RecordedProcess { return r.users.Of(e) }
