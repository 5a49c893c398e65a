// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/ksnoop/ksnoop/bpf"
)

// A sessionThread is what can have one session at a time: a thread, where the CPU tells
// idle threads apart, or the soft or the hard interrupts of a CPU.
type sessionThread struct {
	pid, tid        uint32
	cpu             uint16
	interrupt, hard bool
}

type sessionKey struct {
	sessionThread
	start uint64
}

func keyOf(h *bpf.SessionHeader) sessionKey {
	t := sessionThread{pid: h.PID, tid: h.TID, interrupt: h.Interrupt, hard: h.Hard}
	if h.TID == 0 || h.Interrupt {
		t.cpu = h.CPU
	}
	return sessionKey{t, h.Start}
}

// An openSession is the part of a session that has arrived. It owns its bytes.
type openSession struct {
	key            sessionKey
	log            log
	chains         []Chain
	older, younger *openSession

	logSize, chainSize int
	counted            int    // bytes counted in the total
	left               uint32 // chains dropped
	// hung says that the session was reported as hung, with the first told parts of its log,
	// with what follows these up to the offset shown, and with the first known of its chains.
	hung  bool
	told  int
	shown uint32
	known int
}

func (o *openSession) size() int { return sessionCost + o.logSize + o.chainSize }

// add takes over a part of the log.
func (o *openSession) add(base uint32, data []byte) error {
	n := len(o.log.parts)
	err := o.log.add(base, data)
	for _, p := range o.log.parts[n:] {
		o.logSize += p.cost()
	}
	return err
}

// keep takes over a chain.
func (o *openSession) keep(c Chain) {
	o.chains = append(o.chains, c)
	o.chainSize += c.cost()
}

// drop gives up the oldest part of the log or the oldest chain, whichever takes more
// memory. It returns false if nothing is left.
func (o *openSession) drop() bool {
	switch {
	case o.chainSize > o.logSize:
		o.chainSize -= o.chains[0].cost()
		o.chains[0] = Chain{}
		o.chains = o.chains[1:]
		o.known = max(o.known-1, 0)
		o.left++
	case len(o.log.parts) > 0:
		o.logSize -= o.log.parts[0].cost()
		o.log.drop()
		o.told = max(o.told-1, 0)
	default:
		return false
	}
	return true
}

// interim returns the chains in the order of their innermost calls. The engine may send a
// chain late, when it learns that another one was the reason of a failure. Whoever gets them may
// change their frames.
func (o *openSession) interim() []Chain { return inOrder(o.chains) }

// news returns the chains that it has not returned before.
func (o *openSession) news() []Chain {
	chains := inOrder(o.chains[o.known:])
	o.known = len(o.chains)
	return chains
}

func inOrder(chains []Chain) []Chain {
	chains = slices.Clone(chains)
	for i := range chains {
		chains[i].Frames = slices.Clone(chains[i].Frames)
	}
	slices.SortStableFunc(chains, func(a, b Chain) int { return cmp.Compare(a.begun(), b.begun()) })
	return chains
}

// begun returns the entry time of a chain's innermost call.
func (c *Chain) begun() uint64 {
	if len(c.Frames) == 0 {
		return 0
	}
	return c.Frames[len(c.Frames)-1].Entry
}

// find returns what has arrived of a session. Parts of an earlier session of the same
// thread are given up: they cannot be completed.
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
	d.makeRoom(o)
	return o
}

// Memory of an open session and of a part of its log, besides their bytes.
const (
	sessionCost = 4 << 10 // has the calls of each depth twice
	segmentCost = 64
)

func (s *segment) cost() int {
	return segmentCost + len(s.data) + len(s.args)*int(unsafe.Sizeof(valuesArgs{}))
}

// cost returns the memory of a chain in bytes.
func (c *Chain) cost() int {
	n := int(unsafe.Sizeof(*c)) + 8*len(c.Stack) + len(c.Branches)*int(unsafe.Sizeof(Branch{})) + len(c.Frames)*int(unsafe.Sizeof(Frame{}))
	for i := range c.Frames {
		v := &c.Frames[i].Values
		if v.Event != nil {
			n += int(unsafe.Sizeof(*v.Event)) + len(v.Event.Data)
		}
		for j := range v.Args {
			n += int(unsafe.Sizeof(Arg{})) + len(v.Args[j].Value) + len(v.Args[j].Target)
		}
	}
	return n
}

// forget removes a session that was completed or given up.
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
	d.size -= o.counted
}

// makeRoom first drops the oldest parts of last until it is within the limit of one
// session. Then it gives up the oldest other sessions until all are within the limit.
func (d *Decoder) makeRoom(last *openSession) {
	limit := d.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	for last.size() > limit/shareOfOne && last.drop() {
	}
	d.size += last.size() - last.counted
	last.counted = last.size()
	for o := d.oldest; o != nil && d.size > limit; {
		next := o.younger
		if o != last {
			d.orphans++
			d.forget(o)
		}
		o = next
	}
}

// defaultLimit is the default of Decoder.Limit, in bytes.
const defaultLimit = 64 << 20

// shareOfOne is the fraction of the limit that one session may take.
const shareOfOne = 8

// SessionLimit is what one open session may take with the default limit, in bytes.
const SessionLimit = defaultLimit / shareOfOne
