// SPDX-License-Identifier: Apache-2.0

package code

// A Pass is one block on the way of a call.
type Pass struct {
	Block int // None where it is not known which blocks came here
	// Hit is the hit on the jump that ended the block, by its index; None if there was none.
	Hit int
}

// mostPasses bounds a trail: a loop can have few probes and many turns, and a recording says
// which hits there are.
const mostPasses = 1 << 16

// Trail returns the blocks that a call has entered, in order and as often as it has, from all
// hits that it made. Where the probes do not tell which blocks came next, it has a gap.
func (g *Graph) Trail(sites []Site, hits []Hit) []Pass {
	t := trail{f: newFollower(g, sites), hits: hits}
	at := g.Entry
	for len(t.passes) < mostPasses {
		if at = t.pass(at); at != None {
			continue
		}
		if t.next >= len(t.hits) {
			return t.passes
		}
		h := t.hits[t.next]
		if h.Site < 0 || h.Site >= len(sites) {
			return append(t.passes, Pass{None, None})
		}
		t.passes = append(t.passes, Pass{None, None})
		at = sites[h.Site].Block
	}
	return append(t.passes, Pass{None, None})
}

// A trail follows hits.
type trail struct {
	f      *follower
	hits   []Hit
	next   int // the first hit that was not met
	passes []Pass
}

// met reports whether the next hit is of a site, and takes it.
func (t *trail) met(site int) bool {
	if site == None || t.next >= len(t.hits) || t.hits[t.next].Site != site {
		return false
	}
	t.next++
	return true
}

// pass goes through a block. It returns the next one, None if the call has left or that is not
// known; then more hits show that.
func (t *trail) pass(block int) int {
	b := &t.f.g.Blocks[block]
	if s := t.f.start[block]; s != None && !t.met(s) {
		return None
	}
	if s := t.f.branch[block]; s != None {
		if !t.met(s) {
			t.passes = append(t.passes, Pass{block, None}, Pass{None, None})
			return None
		}
		t.passes = append(t.passes, Pass{block, t.next - 1})
		if t.hits[t.next-1].Taken {
			return b.Taken
		}
		return b.Next
	}
	t.passes = append(t.passes, Pass{block, None})
	next := b.Next
	switch {
	case b.Anywhere || t.f.g.forks(block):
		return t.unknown()
	case b.Taken != None:
		next = b.Taken
	}
	if b.Fault == None {
		return next
	}
	switch s := t.f.start[b.Fault]; {
	case s == None:
		return t.unknown()
	case t.next < len(t.hits) && t.hits[t.next].Site == s:
		return b.Fault
	}
	return next
}

// unknown notes that it is not known where the call went on.
func (t *trail) unknown() int {
	if t.next >= len(t.hits) {
		t.passes = append(t.passes, Pass{None, None})
	}
	return None
}
