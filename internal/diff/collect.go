// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Collector takes the events of one run. It prints nothing.
type Collector struct {
	run     Run
	reader  *reader
	line    []byte
	threads map[uint64]*thread
	// depths are the calls of a session that are open, by depth: nil for one whose entry is missing, out for one that is
	// left out.
	depths []*Call
	out    *Call
}

// NewCollector returns a collector of a run. names are those of both runs. With exact, addresses are compared.
func NewCollector(run output.Run, name string, names *Names, ignore *Ignore, exact bool) *Collector {
	release, _ := run.Kernel.Release() // of no kernel without a name
	return &Collector{run: Run{Name: name, Kernel: release, Sessions: run.Plan.Sessions}, threads: map[uint64]*thread{}, out: &Call{},
		reader: newReader(run, names, ignore, exact)}
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
	if c.line, err = c.reader.events.AppendCall(c.line[:0], call); err != nil {
		return dst, err
	}
	return dst, c.add(c.line)
}

// AppendSession implements show.SessionPrinter.
func (c *Collector) AppendSession(dst []byte, s *session.Session) ([]byte, error) {
	t := c.thread(&eventLine{pid: uint64(s.PID), tid: uint64(s.TID), cpu: uint64(s.CPU), comm: s.Comm})
	before := len(t.Calls)
	c.depths = c.depths[:0]
	var err error
	if len(s.Trace) > 0 {
		c.run.Traced = true
		err = c.addTrace(t, s.Trace)
	} else {
		err = c.addChain(t, &s.Chain)
	}
	if err != nil {
		return dst, err
	}
	c.note(t.Calls[before:], s)
	return dst, c.full()
}

func (c *Collector) full() error {
	if c.reader.memory > maxMemory {
		return ErrFull
	}
	return nil
}

// add adds the call of some lines, of which it has the last one.
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
	c.addCall(c.thread(&e), &e)
	return c.full()
}

// An eventLine is what a line says of a call.
type eventLine struct {
	kind, fn, comm         string
	time, duration         uint64
	pid, tid, cpu          uint64
	values, path, branches []byte
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
		case "values":
			e.values = v
		case "path":
			e.path = v
		case "branches":
			e.branches = v
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

// note notes what is known of a session as a whole, of which the first call is that of its entry function.
func (c *Collector) note(calls []*Call, s *session.Session) {
	if s.Lost.Any() && s.State != session.Running {
		c.run.Holes++
	}
	if len(calls) == 0 { // left out
		return
	}
	call := calls[0]
	call.Failed = s.Failed
	if s.State != session.Returned {
		call.Values = append(call.Values, Value{Name: "state", Text: s.State.String(), AtReturn: true})
	}
	c.reader.branches(call, s.Chain.Branches)
}

// addTrace adds all calls of a session.
func (c *Collector) addTrace(t *thread, steps []session.Step) error {
	for i := range steps {
		if err := c.addStep(t, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) addStep(t *thread, s *session.Step) error {
	name, depth := functionName(s.Func), min(s.Depth, maxDepth)
	began := s.Time - min(s.Duration, s.Time)
	switch s.Kind {
	case session.StepLost, session.StepLeft:
		c.run.Holes++
	case session.StepExit:
		call, when := c.leave(name, depth), jsonlines.AtReturn
		if call == nil {
			call = c.place(t, name, depth, began)
		}
		if s.Alone {
			when = jsonlines.InSession
		}
		return c.finish(call, s.Func, s.Result, s.Failed, &s.Values, when)
	case session.StepEntry:
		call := c.place(t, name, depth, s.Time)
		c.enter(depth, call)
		return c.reader.captured(call, &s.Values, jsonlines.AtEntry, false)
	case session.StepLeaf:
		return c.finish(c.place(t, name, depth, began), s.Func, s.Result, s.Failed, &s.Values, jsonlines.InSession)
	case session.StepOpen: // its entry is in what was lost or left out, which is a hole
	case session.StepProbe:
		return c.reader.captured(c.place(t, s.Probe, depth, s.Time), &s.Values, jsonlines.Always, false)
	}
	return nil
}

// functionName returns the name of a function; a damaged recording may have none.
func functionName(f *plan.Probe) string {
	if f == nil {
		return ""
	}
	return f.Name
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
func (c *Collector) leave(fn string, depth int) *Call {
	if depth >= len(c.depths) {
		return nil
	}
	call := c.depths[depth]
	c.depths = c.depths[:depth]
	if call != nil && (call.Func == fn || call == c.out && c.reader.ignore.call(fn)) {
		return call
	}
	return nil
}

// place adds a call to the one that has made it. It is nil if it, or that one, is left out.
func (c *Collector) place(t *thread, fn string, depth int, time uint64) *Call {
	call := c.call(fn, time)
	if call == nil {
		return nil
	}
	for depth := min(depth, len(c.depths)) - 1; depth >= 0; depth-- {
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
func (c *Collector) finish(call *Call, f *plan.Probe, result uint64, failed bool, v *session.Values, when jsonlines.Moment) error {
	if call == nil || call == c.out {
		return nil
	}
	call.Finished, call.Failed = true, failed
	if err := c.reader.returned(call, f, result); err != nil {
		return err
	}
	return c.reader.captured(call, v, when, true)
}

// addChain adds the calls of a session's chain, each of which has made the next one.
func (c *Collector) addChain(t *thread, chain *session.Chain) error {
	for i := range chain.Frames {
		f, depth := &chain.Frames[i], min(i, maxDepth)
		call := c.place(t, functionName(f.Func), depth, f.Entry)
		var err error
		if f.Finished {
			err = c.finish(call, f.Func, f.Result, f.Failed, &f.Values, jsonlines.InSession)
		} else {
			err = c.reader.captured(call, &f.Values, jsonlines.AtEntry, false)
		}
		if err != nil {
			return err
		}
		c.enter(depth, call)
	}
	return nil
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
