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
	// Entry and Return are the records of the two ends. One of them may be nil; End says
	// why.
	Entry, Return *event.Event
	End           End
}

// Last returns the newest record of the call.
func (c *Call) Last() *event.Event {
	if c.Return != nil {
		return c.Return
	}
	return c.Entry
}

// An End says why a Call is complete.
type End uint8

const (
	Paired  End = iota // both records have come
	Whole              // the plan has one record for each call
	NoEntry            // it returned, but its entry was not seen
	Open               // it had not returned when the stream ended
	Evicted            // given up to make room for others, or since records were lost
	Gap                // not a call: Return marks where records are missing
)

// Counts says what became of the calls of a stream.
type Counts struct {
	Paired, Whole, NoEntry, Open, Evicted uint64 // calls
}

// defaultLimit is the default of Joiner.Limit, in bytes.
const defaultLimit = 64 << 20

// A Joiner pairs entry and return records. The zero value is ready for use. It serves one
// stream.
type Joiner struct {
	// Limit bounds the memory for open calls, in bytes; 0 is defaultLimit.
	Limit int

	counts Counts
	open   map[caller]*openCall // innermost open call of each caller
	gaps   int                  // places where records are missing
	// All open calls, oldest first, and unused ones, linked by next.
	oldest, newest, unused *openCall
	size                   int // bytes of all open calls
}

// A caller identifies the nested calls of one probe: one thread makes them. All idle
// threads have ID 0; the CPU tells them apart, as they never leave it. The process is part
// of the key because thread IDs are reused.
//
// A function of user space may end without a return that is seen: by longjmp, or because too many
// are within each other. So its calls have their place in the key, too. At one place, calls end in
// reverse order: each but the first was jumped to from the one before, or that one is over.
type caller struct {
	probe    *plan.Probe
	pid, tid uint32
	idle     uint16 // CPU, of an idle thread only
	place    uint64 // event.Event.Place
}

func callerOf(e *event.Event) caller {
	c := caller{probe: e.Probe, pid: e.PID, tid: e.TID, place: e.Place}
	if e.TID == 0 {
		c.idle = e.CPU
	}
	return c
}

// An openCall is an entry that waits for its return. It owns its bytes.
type openCall struct {
	event        event.Event
	caller       caller
	gaps         int       // before it
	outer, inner *openCall // of the same caller
	older, next  *openCall
}

// openCost is the memory of an open call in bytes, without its data but with its share of
// the map.
const openCost = 344

func (o *openCall) cost() int { return openCost + cap(o.event.Data) + cap(o.event.Tail) }

// Counts returns the counts so far.
func (j *Joiner) Counts() Counts { return j.counts }

// Join yields one Call for each call of the stream, when it returns or when it is clear
// that no other record of it will come.
//
// Calls of a thread end in reverse order. A return therefore belongs to the newest open
// entry of the same probe on the same thread, and at the same place if records tell it. Where records
// are missing in between, it may belong to an entry that is among them: then neither is paired. Calls
// that are open when the stream ends or fails are yielded then, oldest first; an error comes
// last. A Call is valid until the next one is yielded.
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
				if e.Cause == bpf.LostRingbuf || e.Cause == bpf.LostScratch {
					j.gaps++
				}
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
			if !j.giveUp(j.oldest, Open, &call, yield) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// isEntry reports whether a return record should follow e.
func isEntry(e *event.Event) bool {
	return e.Kind == bpf.KindEntry && sends(e.Probe.Return)
}

// hasEntry reports whether an entry record should have come before e.
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
	caller := callerOf(e)
	o := j.open[caller]
	for ; o != nil && o.gaps != j.gaps; o = j.open[caller] {
		j.counts.Evicted++
		if !j.giveUp(o, Evicted, call, yield) {
			return false
		}
	}
	if o == nil {
		j.counts.NoEntry++
		*call = Call{Return: e}
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

// makeRoom yields the oldest open calls until a new one of size bytes fits the limit.
func (j *Joiner) makeRoom(size int, call *Call, yield func(*Call, error) bool) bool {
	limit := j.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	for j.oldest != nil && j.size+size > limit {
		j.counts.Evicted++
		if !j.giveUp(j.oldest, Evicted, call, yield) {
			return false
		}
	}
	return true
}

// giveUp yields an open call, which is as remove has it, without its return.
func (j *Joiner) giveUp(o *openCall, end End, call *Call, yield func(*Call, error) bool) bool {
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
	*o = openCall{event: *e, caller: callerOf(e), gaps: j.gaps, older: j.newest}
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

// remove unlinks an open call. It must be the innermost or the outermost of its caller.
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

// maxUnused is the largest buffer, in bytes, that is kept for reuse. Otherwise unused
// buffers could exceed the limit many times over.
const maxUnused = 4096

// free keeps a removed call and its buffer for reuse.
func (j *Joiner) free(o *openCall) {
	if cap(o.event.Data)+cap(o.event.Tail) > maxUnused {
		o.event.Data, o.event.Tail = nil, nil
	}
	o.next, j.unused = j.unused, o
}
