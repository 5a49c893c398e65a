// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Collector takes the events of one run. It prints nothing.
type Collector struct {
	run     Run
	events  *jsonlines.Printer
	reader  reader
	line    []byte
	threads map[uint64]*thread
	// depths are the calls of a session that are open, by depth: nil for one whose entry is missing, out for one that is
	// left out.
	depths []*Call
	out    *Call
}

// NewCollector returns a collector of a run. names are those of both runs. With exact, addresses are compared.
func NewCollector(run output.Run, name string, names *Names, ignore *Ignore, exact bool) *Collector {
	return &Collector{run: Run{Name: name, Sessions: run.Plan.Sessions}, events: jsonlines.New(run, false), threads: map[uint64]*thread{}, out: &Call{},
		reader: reader{names: names, ignore: ignore, exact: exact, ignored: map[[2]string]bool{}}}
}

// AppendHeader implements show.Printer.
func (c *Collector) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendLoss implements show.Printer.
func (c *Collector) AppendLoss(dst []byte, _ event.Loss) []byte {
	c.run.Holes++
	return dst
}

// AppendEnd implements show.Printer.
func (c *Collector) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) { return dst, nil }

// AppendCall implements show.CallPrinter.
func (c *Collector) AppendCall(dst []byte, call *calls.Call) ([]byte, error) {
	var err error
	if c.line, err = c.events.AppendCall(c.line[:0], call); err != nil {
		return dst, err
	}
	return dst, c.add(c.line)
}

// AppendSession implements show.SessionPrinter.
func (c *Collector) AppendSession(dst []byte, s *session.Session) ([]byte, error) {
	var err error
	if c.line, err = c.events.AppendSession(c.line[:0], s); err != nil {
		return dst, err
	}
	c.run.Traced = c.run.Traced || len(s.Trace) > 0
	return dst, c.add(c.line)
}

// add adds the events of some lines, of which the last one is that of a call or of a session.
func (c *Collector) add(lines []byte) error {
	lines = lines[:max(len(lines)-1, 0)]
	for at := len(lines); at > 0; at-- {
		if lines[at-1] == '\n' {
			lines = lines[at:]
			break
		}
	}
	var e eventLine
	e.read(lines)
	thread := c.thread(&e)
	switch {
	case e.trace != nil:
		c.addTrace(thread, &e)
	case e.chain != nil:
		c.addChain(thread, &e)
	default:
		c.addCall(thread, &e)
	}
	if c.reader.memory > maxMemory {
		return ErrFull
	}
	return nil
}

// An eventLine is what a line says of a call or of a session.
type eventLine struct {
	kind, fn, comm, state      string
	time, duration             uint64
	pid, tid, cpu              uint64
	failed                     bool
	values, trace, chain       []byte
	path, branches, incomplete []byte
}

func (e *eventLine) read(line []byte) {
	for k, v := range members(line) {
		switch string(k) {
		case "kind":
			e.kind = text(v)
		case "name":
			e.fn = text(v)
		case "comm":
			e.comm = text(v)
		case "state":
			e.state = text(v)
		case "time":
			e.time = number(v)
		case "duration":
			e.duration = number(v)
		case "pid":
			e.pid = number(v)
		case "tid":
			e.tid = number(v)
		case "cpu":
			e.cpu = number(v)
		case "failed":
			e.failed = isTrue(v)
		case "values":
			e.values = v
		case "trace":
			e.trace = v
		case "calls":
			e.chain = v
		case "path":
			e.path = v
		case "branches":
			e.branches = v
		case "lost":
			e.incomplete = v
		}
	}
}

// thread returns the thread of an event. All idle threads have ID 0; the CPU tells them apart.
func (c *Collector) thread(e *eventLine) *thread {
	key := e.pid<<32 | e.tid
	if e.tid == 0 {
		key = 1<<63 | e.cpu
	}
	t := c.threads[key]
	if t == nil {
		t = &thread{Comm: e.comm, PID: e.pid, TID: e.tid}
		c.threads[key] = t
		c.run.threads = append(c.run.threads, t)
		c.reader.memory += callMemory
	}
	return t
}

// call makes a call. It is nil if calls of this function are left out.
func (c *Collector) call(fn string, time uint64) *Call {
	if c.reader.memory += callMemory; c.reader.ignore.call(fn) {
		return nil
	}
	return &Call{Func: c.reader.names.share(fn), Time: time}
}

// addCall adds a call of the calls view. What has called what is found out in the end.
func (c *Collector) addCall(t *thread, e *eventLine) {
	call := c.call(e.fn, e.time-min(e.duration, e.time))
	if call == nil {
		return
	}
	call.end = e.time
	call.Finished = e.kind != "entry"
	c.reader.values(call, e.values, false)
	c.reader.way(call, e.path, e.branches)
	c.run.Calls++
	t.Calls = append(t.Calls, call)
}

// addTrace adds all calls of a session.
func (c *Collector) addTrace(t *thread, e *eventLine) {
	before := len(t.Calls)
	c.depths = c.depths[:0]
	for step := range elements(e.trace) {
		c.addStep(t, step)
	}
	c.note(t.Calls[before:], e)
}

// note notes what is known of a session as a whole, of which the first call is that of its entry function.
func (c *Collector) note(calls []*Call, e *eventLine) {
	if e.incomplete != nil {
		c.run.Holes++
	}
	if len(calls) == 0 { // left out
		return
	}
	call := calls[0]
	call.Failed = e.failed
	if e.state != "returned" {
		call.Values = append(call.Values, Value{Name: "state", Text: c.reader.names.share(e.state), AtReturn: true})
	}
	c.reader.way(call, e.path, e.branches)
}

// A step is a row of a call trace, or a call of a chain.
type step struct {
	kind, fn             string
	depth                int
	time, duration       uint64
	result, args, values []byte
	failed, open         bool
}

func (s *step) read(raw []byte) {
	for k, v := range members(raw) {
		switch string(k) {
		case "step":
			s.kind = text(v)
		case "depth":
			s.depth = int(min(number(v), maxDepth))
		case "name":
			s.fn = text(v)
		case "time":
			s.time = number(v)
		case "duration":
			s.duration = number(v)
		case "result":
			s.result = v
		case "args":
			s.args = v
		case "values":
			s.values = v
		case "failed":
			s.failed = isTrue(v)
		case "open":
			s.open = isTrue(v)
		}
	}
}

func (c *Collector) addStep(t *thread, raw []byte) {
	var s step
	s.read(raw)
	switch s.kind {
	case "lost", "left":
		c.run.Holes++
	case "exit":
		call := c.leave(&s)
		if call == nil {
			call = c.place(t, &s, s.time-min(s.duration, s.time))
		}
		c.finish(call, &s)
	case "entry":
		call := c.place(t, &s, s.time)
		c.reader.captured(call, &s, false)
		c.enter(s.depth, call)
	case "leaf":
		c.finish(c.place(t, &s, s.time-min(s.duration, s.time)), &s)
	case "probe":
		c.reader.captured(c.place(t, &s, s.time), &s, false)
	}
}

// enter notes that a call is open; nil is one that is left out.
func (c *Collector) enter(depth int, call *Call) {
	if call == nil {
		call = c.out
	}
	for len(c.depths) < depth {
		c.depths = append(c.depths, nil)
	}
	c.depths = append(c.depths[:depth], call)
}

// leave returns the call that returns, which is no longer open; nil if its entry was not seen.
func (c *Collector) leave(s *step) *Call {
	if s.depth >= len(c.depths) {
		return nil
	}
	call := c.depths[s.depth]
	c.depths = c.depths[:s.depth]
	if call != nil && (call.Func == s.fn || call == c.out && c.reader.ignore.call(s.fn)) {
		return call
	}
	return nil
}

// place adds a call to the one that has made it. It is nil if it, or that one, is left out.
func (c *Collector) place(t *thread, s *step, time uint64) *Call {
	call := c.call(s.fn, time)
	if call == nil {
		return nil
	}
	for depth := min(s.depth, len(c.depths)) - 1; depth >= 0; depth-- {
		switch caller := c.depths[depth]; caller {
		case nil:
		case c.out:
			return nil
		default:
			c.run.Calls++
			caller.Calls = append(caller.Calls, call)
			return call
		}
	}
	c.run.Calls++
	t.Calls = append(t.Calls, call)
	return call
}

// finish completes a call with its return.
func (c *Collector) finish(call *Call, s *step) {
	if call == nil || call == c.out {
		return
	}
	call.Finished, call.Failed = true, s.failed
	c.reader.result(call, s.result)
	call.Failed = call.Failed || s.failed
	c.reader.captured(call, s, true)
}

// captured adds the values of a step.
func (r *reader) captured(c *Call, s *step, atReturn bool) {
	if c == nil {
		return
	}
	r.values(c, s.args, false)
	r.values(c, s.values, atReturn)
}

// addChain adds the calls of a session's chain, each of which has made the next one.
func (c *Collector) addChain(t *thread, e *eventLine) {
	before := len(t.Calls)
	c.depths = c.depths[:0]
	for raw := range elements(e.chain) {
		var s step
		s.read(raw)
		call := c.place(t, &s, s.time)
		if !s.open {
			c.finish(call, &s)
		} else {
			c.reader.captured(call, &s, false)
		}
		c.enter(s.depth, call)
	}
	c.note(t.Calls[before:], e)
}

// Run returns what was collected. Nothing can be added any more.
func (c *Collector) Run() *Run {
	if !c.run.Sessions {
		for _, t := range c.run.threads {
			t.Calls = nested(t.Calls)
		}
	}
	for _, t := range c.run.threads {
		c.reader.names.seal(t.Calls)
	}
	c.run.threads = slices.DeleteFunc(c.run.threads, func(t *thread) bool { return len(t.Calls) == 0 })
	slices.SortStableFunc(c.run.threads, func(a, b *thread) int { return cmp.Compare(a.Calls[0].Time, b.Calls[0].Time) })
	return &c.run
}

// nested puts each call of a thread below the one that was open when it was made. Calls return in any
// order; those that returned together are as they came.
func nested(all []*Call) (top []*Call) {
	slices.SortStableFunc(all, func(a, b *Call) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(b.end, a.end)) })
	var open []*Call
	for _, c := range all {
		for n := len(open); n > 0 && (open[n-1].end < c.end || open[n-1].end <= c.Time); n-- {
			open = open[:n-1]
		}
		if n := len(open); n > 0 && n < maxDepth {
			open[n-1].Calls = append(open[n-1].Calls, c)
		} else if n == 0 {
			top = append(top, c)
		} else {
			open[n-2].Calls = append(open[n-2].Calls, c)
			continue
		}
		open = append(open, c)
	}
	return top
}
