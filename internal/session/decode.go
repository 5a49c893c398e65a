// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Decoder puts the records of sessions together. The zero value with a Plan
// is ready for use; it serves one stream.
type Decoder struct {
	Plan *plan.Plan
	// Traced says that every call is logged: records then carry parts of the
	// log, and not what is needed of it.
	Traced bool
	// Live asks for the steps of a trace as they come.
	Live bool
	// Limit bounds the memory for sessions that are still open, in bytes; 0 is
	// DefaultLimit. One of them gets an eighth of it.
	Limit int

	open           map[sessionKey]*openSession
	threads        map[sessionThread]*openSession // the last of each
	oldest, newest *openSession
	size           int
	orphans, left  uint64
}

// Orphans returns how many sessions were given up of which parts had come, but
// not the end: that was lost, or memory ran out.
func (d *Decoder) Orphans() uint64 { return d.orphans }

// LeftOut returns how many calls and interim chains were left out of the sessions so
// far, since those took more memory than one may.
func (d *Decoder) LeftOut() uint64 { return d.left }

// Sessions yields the sessions of a stream of records. One is valid until the
// next one is asked for.
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

// Decode takes one record and returns the session that it completes, or adds
// to if Live is set; nil if there is nothing to show yet.
func (d *Decoder) Decode(raw []byte) (*Session, error) {
	if bpf.IsLostSession(raw) {
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
	switch h.Kind {
	case bpf.SessionChunk:
		d.makeRoom(o)
		if !d.Live {
			return nil, nil
		}
		s.State = Running
		s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
		return s, err
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
		return nil, nil
	}
	d.makeRoom(o) // the trace of this one is bounded like its parts
	s.Chain, s.Interim = chain, o.interim()
	s.Lost.Stack = h.Kind == bpf.SessionEnd && h.Stack == 0
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

// note adds to a session that has ended what was left out of it.
func (d *Decoder) note(s *Session, o *openSession, logged *log) {
	s.Lost.Args += logged.missed
	s.Lost.Chains = o.left
	d.left += uint64(o.left)
	if !d.Live { // else they were printed before they were dropped
		d.left += uint64(logged.left)
	}
}

// missing returns the mark that stands where others are missing.
func missing(raw []byte) (*Session, error) {
	var e bpf.Event
	data, err := bpf.DecodeEvent(raw, &e)
	if err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	s := &Session{State: Missing}
	if s.Loss.Cause, s.Loss.Count, err = bpf.DecodeLost(&e, data); err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	return s, nil
}

// hung returns a session that goes on: what it has sent is kept, and what has come with
// this record will be sent again. If it is reported for another time, only with what is new.
func (d *Decoder) hung(h *bpf.SessionHeader, data []byte) (s *Session, err error) {
	s = d.header(h)
	logged := part(h.LogBase, data[:h.LogSize])
	o := d.open[keyOf(h)]
	if d.Traced {
		logged = &log{}
		if o != nil {
			logged = o.log.clone()
		}
		if err := logged.add(h.LogBase, data[:h.LogSize]); err != nil {
			return nil, err
		}
	}
	if s.Chain, err = d.chain(h, data[h.LogSize:], logged); err != nil {
		return nil, err
	}
	s.Lost.Args += logged.missed
	end := h.LogBase + h.LogSize
	if o != nil {
		s.Interim = o.news()
		if o.hung {
			logged.from(o.shown)
		}
		o.hung, o.shown = true, end
	}
	if d.Traced && !d.Live {
		s.Trace, err = d.steps(logged, end)
	}
	return s, err
}

// header returns a session with what a header says of it.
func (d *Decoder) header(h *bpf.SessionHeader) *Session {
	s := &Session{PID: h.PID, TID: h.TID, Inner: h.Inner, Comm: text(h.Comm[:]), Leader: text(h.Leader[:]), Start: h.Start, End: h.End,
		Func: d.Plan.Probes[h.Func], Failed: h.Failed, Interrupt: h.Interrupt, CPU: h.CPU,
		Lost: Lost{Deep: h.LostDeep, Args: h.LostValues, Chunk: h.LostChunks, Returns: h.LostReturns, Room: h.LostRoom, Reasons: h.LostChains}}
	switch h.Kind {
	case bpf.SessionHung:
		s.State = Hung
	case bpf.SessionExit:
		s.State = Exited
	}
	return s
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// chain decodes the calls and the stack of a record. logged is where their
// values lie.
func (d *Decoder) chain(h *bpf.SessionHeader, data []byte, logged *log) (Chain, error) {
	var c Chain
	var returned uint32
	for i := range h.Frames {
		call := bpf.DecodeCall(data[i*bpf.CallSize:])
		if call.Flags&bpf.CallJumped != 0 && returned != 0 {
			call.Returned = returned // what it saw may be the return of its caller
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

func (d *Decoder) frame(h *bpf.SessionHeader, call bpf.SessionCall, logged *log) (Frame, error) {
	if int(call.Func) >= len(d.Plan.Probes) {
		return Frame{}, fmt.Errorf("decoding a record: function %d of %d", call.Func, len(d.Plan.Probes))
	}
	f := Frame{Func: d.Plan.Probes[call.Func], Entry: call.Entry, Duration: call.Duration, Result: call.Result, Returned: call.Returned,
		Finished: call.Flags&bpf.CallFinished != 0, Failed: call.Flags&bpf.CallFailed != 0}
	if !f.Finished && h.End > call.Entry {
		f.Duration = h.End - call.Entry
	}
	for _, at := range d.captured(&call, logged) {
		e, ok := logged.entry(at)
		if !ok && logged.dropped(at) {
			logged.missed++
		}
		if !ok || e.fn != call.Func || e.kind != bpf.LogArgs && e.kind != bpf.LogItem {
			continue // lost, which is counted
		}
		if err := d.values(&f.Values, f.Func, e); err != nil {
			return f, err
		}
	}
	return f, nil
}

// captured returns where in the log the values of a call are.
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

// clone returns a copy whose stack and frames are its own. The values in it
// are not: they are those of the log.
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
