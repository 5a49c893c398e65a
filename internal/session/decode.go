// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A Decoder puts the records of sessions together. The zero value with a Plan
// is ready for use; it serves one stream.
type Decoder struct {
	Plan *plan.Session
	// Traced says that every call is logged: records then carry parts of the
	// log, and not what is needed of it.
	Traced bool
	// Live asks for the steps of a trace as they come.
	Live bool
	// Limit bounds the memory for sessions that are still open, in bytes; 0 is
	// DefaultLimit.
	Limit int

	open           map[sessionKey]*openSession
	threads        map[sessionThread]*openSession // the last of each
	oldest, newest *openSession
	size           int
	orphans        uint64
}

// A sessionThread is who can have no more than one session at a time: a
// thread, an idle one being told by its CPU, or the interrupts of a CPU.
type sessionThread struct {
	pid, tid  uint32
	cpu       uint16
	interrupt bool
}

type sessionKey struct {
	sessionThread
	start uint64
}

func keyOf(h *bpf.SessionHeader) sessionKey {
	t := sessionThread{pid: h.PID, tid: h.TID, interrupt: h.Interrupt}
	if h.TID == 0 || h.Interrupt {
		t.cpu = h.CPU
	}
	return sessionKey{t, h.Start}
}

// An openSession is what has come of a session so far. It owns its bytes.
type openSession struct {
	key            sessionKey
	log            log
	chains         []Chain
	older, younger *openSession
}

// interim returns the chains in the order in which their innermost calls were made: the engine sends some
// only when it knows that another one was the reason.
func (o *openSession) interim() []Chain {
	slices.SortStableFunc(o.chains, func(a, b Chain) int { return cmp.Compare(a.begun(), b.begun()) })
	return o.chains
}

// begun returns when the innermost call of a chain was made.
func (c *Chain) begun() uint64 {
	if len(c.Frames) == 0 {
		return 0
	}
	return c.Frames[len(c.Frames)-1].Entry
}

// Orphans returns how many sessions were given up of which parts had come, but
// not the end: that was lost, or memory ran out.
func (d *Decoder) Orphans() uint64 { return d.orphans }

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
	if int(h.Func) >= len(d.Plan.Functions) {
		return nil, fmt.Errorf("decoding a record: function %d of %d", h.Func, len(d.Plan.Functions))
	}
	if h.Kind == bpf.SessionHung {
		return d.hung(&h, data)
	}
	o := d.find(&h)
	logged := log{{base: h.LogBase, data: data[:h.LogSize]}}
	if d.Traced {
		logged = o.log.with(h.LogBase, data[:h.LogSize])
		d.size += len(logged)*segmentCost + int(h.LogSize) - len(o.log)*segmentCost
		o.log = logged
	}
	s := d.header(&h)
	switch h.Kind {
	case bpf.SessionChunk:
		if !d.Live {
			return nil, d.makeRoom(o)
		}
		s.State = Running
		s.Trace, err = d.steps(log{{base: h.LogBase, data: data[:h.LogSize]}}, 0)
		return s, err
	case bpf.SessionDrop:
		d.forget(o)
		return nil, nil
	}
	chain, err := d.chain(&h, data[h.LogSize:], logged)
	if err != nil {
		return nil, err
	}
	if h.Kind == bpf.SessionChain {
		o.chains = append(o.chains, chain.clone())
		return nil, d.makeRoom(o)
	}
	s.Chain, s.Interim = chain, o.interim()
	s.Lost.Stack = h.Kind == bpf.SessionEnd && h.Stack == 0
	switch {
	case d.Traced && d.Live:
		s.Trace, err = d.steps(log{{base: h.LogBase, data: data[:h.LogSize]}}, 0)
	case d.Traced:
		s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
	}
	d.forget(o)
	return s, err
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

// hung returns a session that goes on: what it has sent is kept, and what has
// come with this record will be sent again.
func (d *Decoder) hung(h *bpf.SessionHeader, data []byte) (s *Session, err error) {
	logged := log{{base: h.LogBase, data: data[:h.LogSize]}}
	s = d.header(h)
	if o := d.open[keyOf(h)]; o != nil {
		logged, s.Interim = append(slices.Clone(o.log), logged...), o.interim()
	}
	if s.Chain, err = d.chain(h, data[h.LogSize:], logged); err == nil && d.Traced && !d.Live {
		s.Trace, err = d.steps(logged, h.LogBase+h.LogSize)
	}
	return s, err
}

// header returns a session with what a header says of it.
func (d *Decoder) header(h *bpf.SessionHeader) *Session {
	s := &Session{PID: h.PID, TID: h.TID, Inner: h.Inner, Comm: text(h.Comm[:]), Leader: text(h.Leader[:]), Start: h.Start, End: h.End,
		Func: d.Plan.Functions[h.Func], Failed: h.Failed, Interrupt: h.Interrupt, CPU: h.CPU,
		Lost: Lost{Deep: h.LostDeep, Args: h.LostValues, Chunk: h.LostChunks, Returns: h.LostReturns}}
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

// find returns what has come of a session so far. Whatever there is of an
// earlier one of the same thread will not be completed.
func (d *Decoder) find(h *bpf.SessionHeader) *openSession {
	key := keyOf(h)
	if o := d.open[key]; o != nil {
		return o
	}
	if d.open == nil {
		d.open, d.threads = map[sessionKey]*openSession{}, map[sessionThread]*openSession{}
	}
	if o := d.threads[key.sessionThread]; o != nil {
		d.orphans++
		d.forget(o)
	}
	o := &openSession{key: key, older: d.newest}
	if d.newest != nil {
		d.newest.younger = o
	} else {
		d.oldest = o
	}
	d.newest = o
	d.open[key], d.threads[key.sessionThread] = o, o
	d.size += sessionCost
	return o
}

// What an open session, a segment of its log and a chain take, besides bytes.
const (
	sessionCost = 512
	segmentCost = 64
)

func (d *Decoder) forget(o *openSession) {
	delete(d.open, o.key)
	if d.threads[o.key.sessionThread] == o {
		delete(d.threads, o.key.sessionThread)
	}
	if o.older != nil {
		o.older.younger = o.younger
	} else {
		d.oldest = o.younger
	}
	if o.younger != nil {
		o.younger.older = o.older
	} else {
		d.newest = o.older
	}
	d.size -= sessionCost
	for _, s := range o.log {
		d.size -= segmentCost + len(s.data)
	}
}

// makeRoom gives up the oldest open sessions, but for keep, until the others
// take no more than the limit.
func (d *Decoder) makeRoom(keep *openSession) error {
	limit := d.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	for d.size > limit && d.oldest != keep {
		d.orphans++
		d.forget(d.oldest)
	}
	return nil
}

// chain decodes the calls and the stack of a record. logged is where their
// values lie.
func (d *Decoder) chain(h *bpf.SessionHeader, data []byte, logged log) (Chain, error) {
	var c Chain
	for i := range h.Frames {
		call := bpf.DecodeCall(data[i*bpf.CallSize:])
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

func (d *Decoder) frame(h *bpf.SessionHeader, call bpf.SessionCall, logged log) (Frame, error) {
	if int(call.Func) >= len(d.Plan.Functions) {
		return Frame{}, fmt.Errorf("decoding a record: function %d of %d", call.Func, len(d.Plan.Functions))
	}
	f := Frame{Func: d.Plan.Functions[call.Func], Entry: call.Entry, Duration: call.Duration, Result: call.Result, Returned: call.Returned,
		Finished: call.Flags&bpf.CallFinished != 0, Failed: call.Flags&bpf.CallFailed != 0}
	if !f.Finished && h.End > call.Entry {
		f.Duration = h.End - call.Entry
	}
	for _, at := range d.captured(&call, logged) {
		e, ok := logged.entry(at)
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
func (d *Decoder) captured(call *bpf.SessionCall, logged log) (at []uint32) {
	if d.Traced && call.Values != 0 {
		if args, ok := logged.argsBefore(call.Values - 1); ok {
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
