// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Decoder assembles sessions from records. The zero value with a Plan is ready for use.
// It serves one stream.
type Decoder struct {
	Plan *plan.Plan
	// Traced says that every call was logged. Records then carry parts of the log, instead
	// of what is needed from it.
	Traced bool
	// Live asks for the steps of a trace as they arrive.
	Live bool
	// Limit bounds the memory for open sessions, in bytes; 0 means defaultLimit. One
	// session gets an eighth of it.
	Limit int

	open           map[sessionKey]*openSession
	threads        map[sessionThread]*openSession // newest session of each thread
	oldest, newest *openSession
	size           int
	orphans, left  uint64
}

// Orphans returns how many sessions were given up: some parts came, but the end was lost or
// memory ran out.
func (d *Decoder) Orphans() uint64 { return d.orphans }

// LeftOut returns how many calls and interim chains were left out so far because a session
// exceeded its memory.
func (d *Decoder) LeftOut() uint64 { return d.left }

// Sessions yields the sessions of a stream of records. A session is valid until the next
// one is yielded.
func (d *Decoder) Sessions(records iter.Seq2[[]byte, error]) iter.Seq2[*Session, error] {
	return func(yield func(*Session, error) bool) {
		for raw, err := range records {
			var s *Session
			if err == nil {
				s, err = d.Decode(raw)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if s != nil && !yield(s, nil) {
				return
			}
		}
	}
}

// Decode takes one record. It returns the session that the record completes or, if Live is
// set, adds to. It returns nil if there is nothing to show yet.
func (d *Decoder) Decode(raw []byte) (*Session, error) {
	if bpf.IsLost(raw) {
		return missing(raw)
	}
	var h bpf.SessionHeader
	data, err := bpf.DecodeSession(raw, &h)
	if err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	if int(h.Func) >= len(d.Plan.Probes) {
		return nil, fmt.Errorf("decoding a record: function %d of %d", h.Func, len(d.Plan.Probes))
	}
	if h.Kind == bpf.SessionHung {
		return d.hung(&h, data)
	}
	o := d.find(&h)
	logged := part(h.LogBase, data[:h.LogSize])
	all := logged
	if d.Traced {
		if err := o.add(h.LogBase, bytes.Clone(data[:h.LogSize])); err != nil {
			return nil, err
		}
		all = &o.log
	}
	s := d.header(&h)
	s.OffCPU, _ = offCPU(&h, data[h.LogSize:])
	switch h.Kind {
	case bpf.SessionChunk:
		d.makeRoom(o)
		return d.piece(s, logged, &h)
	case bpf.SessionDrop:
		d.forget(o)
		return nil, nil
	}
	chain, err := d.chain(&h, data[h.LogSize:], all)
	if err != nil {
		return nil, err
	}
	if h.Kind == bpf.SessionChain {
		o.keep(chain.clone())
		d.makeRoom(o)
		return d.piece(s, logged, &h)
	}
	d.makeRoom(o) // the trace of this session is bounded too
	s.Chain, s.Interim = chain, o.interim()
	s.Lost.Stack = h.Kind == bpf.SessionEnd && h.Stack == 0 && s.inKernel()
	switch {
	case d.Traced && d.Live:
		s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
	case d.Traced:
		s.Trace, err = d.steps(all, h.LogBase+h.LogSize)
	}
	d.note(s, o, all)
	d.forget(o)
	return s, err
}

// note records in a finished session what was left out of it.
func (d *Decoder) note(s *Session, o *openSession, logged *log) {
	s.Lost.Args += logged.missed
	s.Lost.Chains = o.left
	d.left += uint64(o.left)
	if !d.Live { // with Live, they were printed before they were dropped
		d.left += uint64(logged.left)
	}
}

// missing returns the session that marks where others are missing.
func missing(raw []byte) (*Session, error) {
	var e bpf.Event
	data, err := bpf.DecodeEvent(raw, &e)
	if err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	s := &Session{State: Missing, Loss: event.Loss{Time: e.Time, CPU: e.CPU}}
	if s.Loss.Cause, s.Loss.Count, err = bpf.DecodeLost(&e, data); err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	return s, nil
}

// hung returns a session that is still open. The parts it sent before are kept; the
// contents of this record will be sent again later. A second report of the same session has
// only what is new. The thread goes on while it is reported, so a part of the log that is newer
// than the report may come before it.
func (d *Decoder) hung(h *bpf.SessionHeader, data []byte) (s *Session, err error) {
	s = d.header(h)
	s.OffCPU, _ = offCPU(h, data[h.LogSize:])
	logged := part(h.LogBase, data[:h.LogSize])
	o := d.open[keyOf(h)]
	again := o != nil && o.hung
	before := 0 // parts of the log
	if d.Traced {
		logged = &log{}
		if o != nil {
			before = o.log.until(h.LogBase)
			told := 0
			if again {
				told = min(o.told, before)
			}
			logged = o.log.since(told, before)
		}
		if err := logged.add(h.LogBase, data[:h.LogSize]); err != nil {
			return nil, err
		}
	}
	if s.Chain, err = d.chain(h, data[h.LogSize:], logged); err != nil {
		return nil, err
	}
	s.Lost.Args += logged.missed
	if again {
		logged.from(o.shown)
	}
	if d.Traced && !d.Live {
		s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
	}
	if again { // the entries of these calls have been shown with their values
		s.Trace = slices.DeleteFunc(s.Trace, func(s Step) bool { return s.Kind == StepOpen })
	}
	if o != nil {
		s.Interim = o.news()
		o.hung = true
		if before >= o.told { // else another record has told more
			o.told, o.shown = before, lasting(h.LogBase, data[:h.LogSize])
		}
	}
	return s, err
}

// lasting returns where the log of a session that is still open ends in a part of it. Values of calls in flight follow there,
// of which the session's next record knows nothing.
func lasting(base uint32, data []byte) uint32 {
	end := base
	for at := base; len(data) > 0; {
		e, err := bpf.DecodeLog(data)
		if err != nil {
			break
		}
		at, data = at+uint32(e.Size), data[e.Size:]
		if e.Kind != bpf.LogItem && e.Kind != bpf.LogOpen { // before the end of the log, a return follows values
			end = at
		}
	}
	return end
}

// header returns a session filled in from a record's header.
func (d *Decoder) header(h *bpf.SessionHeader) *Session {
	s := &Session{PID: h.PID, TID: h.TID, Inner: h.Inner, Comm: text(h.Comm[:]), Start: h.Start, End: h.End,
		Func: d.Plan.Probes[h.Func], Interrupt: h.Interrupt, CPU: h.CPU, HasOffCPU: h.HasOffCPU, Owner: h.Owner, HasOwner: h.HasOwner, Parent: h.Parent, HasParent: h.HasParent,
		Lost: Lost{Deep: h.LostDeep, Args: h.LostValues, Chunk: h.LostChunks, Returns: h.LostReturns, Room: h.LostRoom, Reasons: h.LostChains}}
	if len(h.Tail) > 0 {
		s.User = &event.Event{Event: h.Event(), Tail: bytes.Clone(h.Tail)}
	}
	// The engine sets the name of the process, and whether the session failed, when it closes one. Other records
	// have what an earlier session has left in the same place; of one that hangs, the name is its own.
	switch h.Kind {
	case bpf.SessionChunk, bpf.SessionChain, bpf.SessionDrop:
		return s
	case bpf.SessionHung:
		s.State = Hung
	case bpf.SessionExit:
		s.State = Exited
	case bpf.SessionExec:
		s.State = Replaced
	}
	s.Leader, s.Failed = text(h.Leader[:]), h.Failed && s.State != Hung
	return s
}

// text returns a NUL-terminated name.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// offCPU returns the off-CPU times that stand behind the calls, the stack and the branches of a record.
func offCPU(h *bpf.SessionHeader, data []byte) (total uint64, of func(i int) uint64) {
	return h.OffCPU(data[h.Frames*bpf.CallSize+8*h.Stack+h.Branches*bpf.BranchSize:])
}

// chain decodes the calls and the stack of a record. logged has their values.
func (d *Decoder) chain(h *bpf.SessionHeader, data []byte, logged *log) (Chain, error) {
	c := Chain{Interrupt: h.Interrupt}
	var returned uint32
	total, off := offCPU(h, data)
	for i := range h.Frames {
		call := bpf.DecodeCall(data[i*bpf.CallSize:])
		if call.Flags&bpf.CallJumped != 0 && returned != 0 {
			call.Returned = returned // its own value may be the return address of its caller
		}
		returned = call.Returned
		if call.Flags&bpf.CallHidden != 0 {
			continue
		}
		f, err := d.frame(h, call, logged)
		if err != nil {
			return c, err
		}
		f.Stitched = h.Stitched > 0 && i >= h.Stitched
		if f.OffCPU = off(i); !f.Finished {
			f.OffCPU = total - min(f.OffCPU, total)
		}
		f.OffCPU = min(f.OffCPU, f.Duration)
		c.Frames = append(c.Frames, f)
	}
	data = data[h.Frames*bpf.CallSize:]
	for i := range h.Stack {
		c.Stack = append(c.Stack, le.Uint64(data[8*i:]))
	}
	data = data[8*h.Stack:]
	c.Branches = event.AppendBranches(nil, bpf.Section{Data: data[:h.Branches*bpf.BranchSize]})
	c.NoBranches, c.AllBranches = h.NoBranches, h.AllBranches
	return c, nil
}

// frame decodes one call of a chain, with its values from the log.
func (d *Decoder) frame(h *bpf.SessionHeader, call bpf.SessionCall, logged *log) (Frame, error) {
	if int(call.Func) >= len(d.Plan.Probes) {
		return Frame{}, fmt.Errorf("decoding a record: function %d of %d", call.Func, len(d.Plan.Probes))
	}
	f := Frame{Func: d.Plan.Probes[call.Func], Entry: call.Entry, Duration: call.Duration, Result: call.Result, Returned: call.Returned,
		Finished: call.Flags&bpf.CallFinished != 0, Failed: call.Flags&bpf.CallFailed != 0}
	if !f.Finished {
		f.Result, f.Duration = 0, 0 // the engine keeps a stack pointer and a count there
		if h.End > call.Entry {
			f.Duration = h.End - call.Entry
		}
	}
	for _, at := range d.captured(&call, logged) {
		e, ok := logged.entry(at)
		if !ok && logged.dropped(at) {
			logged.missed++
		}
		if !ok || e.Func != call.Func || !e.Kind.HasValues() {
			continue // lost, and counted as such
		}
		if err := d.values(&f.Values, f.Func, e); err != nil {
			return f, err
		}
	}
	if logged.late && len(f.Func.Args) > 0 && f.Values.Args == nil && f.Values.Event != nil {
		logged.missed++
	}
	return f, nil
}

// captured returns the offsets in the log of a call's values.
func (d *Decoder) captured(call *bpf.SessionCall, logged *log) (at []uint32) {
	if d.Traced && call.Values != 0 {
		if args, ok := logged.argsOf(call.Values - 1); ok {
			at = append(at, args)
		}
	}
	if call.Values != 0 {
		at = append(at, call.Values-1)
	}
	if !d.Traced && call.Item != 0 {
		at = append(at, call.Item-1)
	}
	return at
}

// piece decodes the calls in one part of a session's log, which --live prints at once.
func (d *Decoder) piece(s *Session, logged *log, h *bpf.SessionHeader) (*Session, error) {
	if !d.Live || h.LogSize == 0 {
		return nil, nil
	}
	var err error
	s.State = Running
	s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
	return s, err
}

// inKernel reports whether the stack of a session was taken where the kernel has one. It is taken when the innermost failed
// function returns or, without a failure, when the entry function does. If that is a function of the process, there is none.
func (s *Session) inKernel() bool {
	f := s.Chain.Frames
	inProcess := len(f) > 0 && f[len(f)-1].Func.Method == layout.MethodUprobe || !s.Failed && s.Func.Method == layout.MethodUprobe
	return !inProcess
}

// clone returns a copy with its own stack and frames. It shares the values, which are in
// the log.
func (c Chain) clone() Chain {
	for i := range c.Frames {
		v := &c.Frames[i].Values
		if v.Event != nil {
			v.Event.Data = bytes.Clone(v.Event.Data)
		}
		for j := range v.Args {
			v.Args[j].Value, v.Args[j].Target = bytes.Clone(v.Args[j].Value), bytes.Clone(v.Args[j].Target)
		}
	}
	return c
}
