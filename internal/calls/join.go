// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Call is what is known of one call of a traced function.
type Call struct {
	// Entry and Return are the records of its two ends. One of them is nil if
	// there is no such record; see End.
	Entry, Return *event.Event
	End           End
}

// An End says how the record or the records of a call came to be all of it.
type End uint8

const (
	Paired  End = iota // both records are there
	Whole              // the plan has one record for a call: there is no other to wait for
	NoEntry            // returned, but its entry was not seen
	Open               // had not returned when the stream ended
	Evicted            // was given up so that others could be kept
	Gap                // no call: Return is a mark where records are missing
)

// Counts says what became of the events of a stream.
type Counts struct {
	Paired, Whole, NoEntry, Open, Evicted uint64 // calls
}

// DefaultLimit is how much memory a Joiner takes for calls that are open,
// unless told otherwise.
const DefaultLimit = 64 << 20

// A Joiner pairs the entry and the return records of calls. The zero value is
// ready for use; it serves one stream.
type Joiner struct {
	// Limit bounds the memory for open calls, in bytes; 0 is DefaultLimit.
	Limit int

	counts Counts
	open   map[caller]*openCall // the innermost open call of each
	// All open calls, oldest first, and unused ones, linked by next.
	oldest, newest, unused *openCall
	size                   int // of all open calls
}

// A caller is who can have calls of one probe within each other, and nobody
// else's: a thread. All idle threads have the ID 0 and are told apart by the
// CPU, which they never leave. The process is there for thread IDs that are
// used again.
type caller struct {
	probe    *plan.Probe
	pid, tid uint32
	idle     uint16 // CPU of an idle thread
}

func callerOf(e *event.Event) caller {
	c := caller{probe: e.Probe, pid: e.PID, tid: e.TID}
	if e.TID == 0 {
		c.idle = e.CPU
	}
	return c
}

// An openCall is an entry that waits for its return. It owns its bytes.
type openCall struct {
	event        event.Event
	caller       caller
	outer, inner *openCall // of the same caller
	older, next  *openCall
}

// openCost is what an open call takes besides its bytes, map included.
const openCost = 320

func (o *openCall) cost() int { return openCost + cap(o.event.Data) + cap(o.event.Tail) }

// Counts returns what was counted so far.
func (j *Joiner) Counts() Counts { return j.counts }

// Join yields one Call for each call of the stream: when it returns, or when
// it is clear that no other record of it will come. A return belongs to the
// last entry of the same probe on the same thread that is still open: calls
// end in reverse order. Calls that are open when the stream ends, or fails,
// are yielded then, oldest first; an error comes last.
//
// A Call is valid until the next one is asked for.
func (j *Joiner) Join(events iter.Seq2[*event.Event, error]) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		var failed error
		var call Call
		for e, err := range events {
			if err != nil {
				failed = err
				break
			}
			if e.Kind == bpf.KindLost {
				if call = (Call{Return: e, End: Gap}); !yield(&call, nil) {
					return
				}
				continue
			}
			if isEntry(e) {
				if !j.makeRoom(openCost+len(e.Data)+len(e.Tail), &call, yield) {
					return
				}
				j.push(e)
				continue
			}
			if !j.settle(e, &call, yield) {
				return
			}
		}
		for j.oldest != nil {
			j.counts.Open++
			if !j.giveUp(Open, &call, yield) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// isEntry reports whether a return of the same call is to be expected.
func isEntry(e *event.Event) bool {
	return e.Kind == bpf.KindEntry && sends(e.Probe.Return)
}

// hasEntry reports whether an entry of the same call was to be expected.
func hasEntry(e *event.Event) bool {
	return e.Kind == bpf.KindReturn && sends(e.Probe.Entry)
}

func sends(h *layout.Half) bool { return h != nil && h.Record != nil }

// settle yields the call that e completes.
func (j *Joiner) settle(e *event.Event, call *Call, yield func(*Call, error) bool) bool {
	*call = Call{Return: e, End: Whole}
	if e.Kind == bpf.KindEntry {
		*call = Call{Entry: e, End: Whole}
	}
	if !hasEntry(e) {
		j.counts.Whole++
		return yield(call, nil)
	}
	o := j.open[callerOf(e)]
	if o == nil {
		j.counts.NoEntry++
		call.End = NoEntry
		return yield(call, nil)
	}
	j.counts.Paired++
	call.Entry, call.End = &o.event, Paired
	j.remove(o)
	ok := yield(call, nil)
	j.free(o)
	return ok
}

// makeRoom yields the oldest open calls until there is room for another one.
func (j *Joiner) makeRoom(size int, call *Call, yield func(*Call, error) bool) bool {
	limit := j.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	for j.oldest != nil && j.size+size > limit {
		j.counts.Evicted++
		if !j.giveUp(Evicted, call, yield) {
			return false
		}
	}
	return true
}

// giveUp yields the oldest open call without its return.
func (j *Joiner) giveUp(end End, call *Call, yield func(*Call, error) bool) bool {
	o := j.oldest
	j.remove(o)
	*call = Call{Entry: &o.event, End: end}
	ok := yield(call, nil)
	j.free(o)
	return ok
}

// push opens a call with a copy of its entry.
func (j *Joiner) push(e *event.Event) {
	o := j.unused
	if o == nil {
		o = &openCall{}
	} else {
		j.unused = o.next
	}
	data, tail := append(o.event.Data[:0], e.Data...), append(o.event.Tail[:0], e.Tail...)
	*o = openCall{event: *e, caller: callerOf(e), older: j.newest}
	o.event.Data, o.event.Tail = data, tail
	if j.newest != nil {
		j.newest.next = o
	} else {
		j.oldest = o
	}
	j.newest = o
	if j.open == nil {
		j.open = map[caller]*openCall{}
	}
	if o.outer = j.open[o.caller]; o.outer != nil {
		o.outer.inner = o
	}
	j.open[o.caller] = o
	j.size += o.cost()
}

// remove takes a call out of the open ones: the innermost of its caller, or
// the outermost.
func (j *Joiner) remove(o *openCall) {
	switch {
	case o.inner != nil:
		o.inner.outer = o.outer
	case o.outer != nil:
		j.open[o.caller] = o.outer
	default:
		delete(j.open, o.caller)
	}
	if o.outer != nil {
		o.outer.inner = o.inner
	}
	if o.older != nil {
		o.older.next = o.next
	} else {
		j.oldest = o.next
	}
	if o.next != nil {
		o.next.older = o.older
	} else {
		j.newest = o.older
	}
	j.size -= o.cost()
}

// maxUnused is the largest buffer that is kept for the next call. Without a
// bound, unused ones could come to exceed the limit many times over.
const maxUnused = 4096

// free keeps a removed call for reuse, with its buffer.
func (j *Joiner) free(o *openCall) {
	if cap(o.event.Data)+cap(o.event.Tail) > maxUnused {
		o.event.Data, o.event.Tail = nil, nil
	}
	o.next, j.unused = j.unused, o
}
