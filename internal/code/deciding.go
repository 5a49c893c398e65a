// SPDX-License-Identifier: Apache-2.0

package code

import (
	"maps"
	"slices"
)

// decide finds the last jump whose other way could have led to another result. If the call failed,
// that must be a way that succeeds: a jump that only replaces one error by another has not decided it.
func (w *walker) decide() {
	v := w.walk.Returned
	if v == nil || v.Kind == Chosen || v.Kind == Opaque {
		w.walk.Unsure = true
		return
	}
	before := map[int]bool{} // blocks that were passed before a constant was made
	if v.Kind == Constant && v.fails() {
		before = w.before(v.Step - 1)
	}
	sorted := None            // the last jump that only tells that a value is not one of those that others compare it with
	retries := map[int]bool{} // jumps by which it was not tried again, by their blocks
	for i := len(w.passes) - 1; i >= 0; i-- {
		p := w.passes[i]
		if p.Block == None {
			w.walk.Unsure = true // more decisions may have been made here
			return
		}
		if p.Hit == None || w.walk.Conditions[p.Hit].certain() || w.walk.Conditions[p.Hit].sorts(v) {
			continue
		}
		other := w.g.Blocks[p.Block].Taken
		if w.hits[p.Hit].Taken {
			other = w.g.Blocks[p.Block].Next
		}
		if v.Kind == Result && !v.handed && (i < v.Step || w.sites[w.hits[p.Hit].Site].Addr == v.From) {
			break // what comes before the call avoids it at best, and says nothing of its error
		}
		var matters bool
		if i >= v.Step || v.Kind == Constant {
			// Of the jumps behind it none could have led to another result.
			if matters = w.differs(p.Hit, other, v, limits{fixed: retries}); w.walk.Unsure {
				return
			}
			if matters && w.null {
				before = w.before(i)
			}
			if matters && (i >= v.Step || w.null) && len(before) > 0 && w.tries(p.Hit, other, v, limits{before, retries}) {
				retries[p.Block] = w.hits[p.Hit].Taken
				continue
			}
		} else {
			matters = other == None || w.avoids(other, w.passes[v.Step].Block)
		}
		if matters {
			if fact := w.selected(p.Hit); fact != nil {
				if sorted == None {
					sorted = p.Hit
				}
				w.facts = append(w.facts, fact)
				continue
			}
			if later := w.later(i, other, v); later != None || w.walk.Unsure {
				w.walk.Deciding = later
				return
			}
			// The retries must have come behind it in any case.
			if w.walk.Unsure = other == None && len(retries) > 0 || w.avoidsAny(other, retries); !w.walk.Unsure {
				w.walk.Deciding = p.Hit
			}
			return
		}
	}
	if w.walk.Unsure = len(retries) > 0; !w.walk.Unsure {
		w.walk.Deciding = sorted
	}
}

// selected returns the condition that a value is one number, if a jump tells no more than that it is not another one, as in a switch:
// what decided with that number is not that it is not the other one. nil if there is no such condition.
func (w *walker) selected(hit int) *Condition {
	c := w.walk.Conditions[hit]
	if c == nil || c.Relation != Different || c.Common || c.Computed || !c.Right.constant() || c.Left.Value == nil || c.Left.Value.Kind != Argument {
		return nil
	}
	for _, is := range w.walk.Conditions {
		if is != nil && is.Relation == Equal && !is.Common && !is.Computed && is.Left.Value.Same(c.Left.Value) && is.Right.Other(&c.Right) {
			return is
		}
	}
	return nil
}

// later returns the hit on the last jump behind a pass that compares what was constant by then, could have
// led to another result, and need not be met on the other way from that pass: so rtnl_newlink finds no type,
// looks for the device, and only then fails for want of the type. None if there is no such jump.
func (w *walker) later(pass, other int, v *Value) int {
	for i := len(w.passes) - 1; i > pass; i-- {
		p := w.passes[i]
		if p.Hit == None {
			continue
		}
		c := w.walk.Conditions[p.Hit]
		if !c.certain() || c.Left.Value.Made(v) || c.since() >= pass || other != None && !w.avoids(other, p.Block) {
			continue
		}
		to := w.g.Blocks[p.Block].Taken
		if w.hits[p.Hit].Taken {
			to = w.g.Blocks[p.Block].Next
		}
		if is := w.differs(p.Hit, to, v, limits{}); w.walk.Unsure {
			return None
		} else if is {
			return p.Hit
		}
	}
	return None
}

// since returns the pass in which the constants of a condition were made, but for that in the comparison itself.
func (c *Condition) since() int {
	if c.Computed || c.Right.Value.From == c.Addr {
		return c.Left.Value.Step
	}
	return max(c.Left.Value.Step, c.Right.Value.Step)
}

// before returns the blocks of all passes up to one.
func (w *walker) before(pass int) map[int]bool {
	if w.first == nil {
		w.first = map[int]int{}
		for i, p := range w.passes {
			if _, ok := w.first[p.Block]; !ok {
				w.first[p.Block] = i
			}
		}
	}
	before := map[int]bool{}
	for block, first := range w.first {
		if first <= pass {
			before[block] = true
		}
	}
	return before
}

// tries reports whether the other way from a jump leads to another result only if it is tried again: by
// blocks that were passed before the error was made, as do_renameat2 does if a lease was broken. That
// it was not tried again has not made the error. NULL tells nothing of where an error was made that is
// stored with it: these are blocks before the jump then, as where __skb_try_recv_datagram waits for more.
func (w *walker) tries(hit, other int, v *Value, l limits) bool {
	differs := w.differs(hit, other, v, l)
	unsure := w.walk.Unsure
	w.walk.Unsure = false
	return !differs && !unsure
}

// avoidsAny reports whether the function can be left from a block on without one of some blocks.
func (w *walker) avoidsAny(from int, blocks map[int]bool) bool {
	for b := range blocks {
		if w.avoids(from, b) {
			return true
		}
	}
	return false
}

// certain reports whether a condition compares constants: what it was reached by has decided it.
func (c *Condition) certain() bool {
	return c != nil && c.Left.constant() && (c.Right.constant() || c.Computed)
}

// sorts reports whether a condition asks which error v is: what was decided before is only sorted
// by that. A test for zero or for a sign may be what tells an error from success.
func (c *Condition) sorts(v *Value) bool {
	if c == nil || c.Common || c.Computed || !c.Left.Value.Made(v) || !c.Right.constant() {
		return false
	}
	n := int32(c.Right.Value.N)
	return (c.Relation == Equal || c.Relation == Different) && n != 0
}

// differs reports whether the other way from a jump can lead to another result than v.
func (w *walker) differs(hit, other int, v *Value, l limits) (is bool) {
	at := &w.moments[hit]
	if other == None { // it ends with another function, if it does not return there
		to := &w.g.Instructions[w.g.Blocks[w.sites[w.hits[hit].Site].Block].behind-1]
		same := at.words[w.machine.result]
		return w.callees.kind(to.Target) != Return || same != v && !same.Made(v)
	}
	state := imagined{machine: w.machine, words: make([]known, len(at.words)), stack: map[int64]slot{}, shared: at.taken}
	for i, held := range at.words {
		state.words[i] = held.as(v)
	}
	for place, held := range at.stack {
		state.stack[place] = slot{held.as(v), held.size}
	}
	for _, c := range w.facts {
		n := known{number, uint64(c.Right.Value.N), c.Size}
		for i, held := range at.words {
			if held.Same(c.Left.Value) {
				state.words[i] = n
			}
		}
		for place, held := range at.stack {
			if held.Same(c.Left.Value) {
				state.stack[place] = slot{n, held.size}
			}
		}
	}
	w.fail(hit, &state)
	w.learn(hit, &state)
	s := search{walker: walker{f: w.f, g: w.g, sites: w.sites, callees: w.callees, machine: w.machine}, steps: &w.searched, seen: map[string]bool{}, ok: true, limits: l}
	if v.fails() { // then all errors are the same
		s.visits = make([]int, len(w.g.Blocks))
	}
	forgot := false
	s.ended = func(state *imagined, way *Possible, result known) {
		switch {
		case result.kind == unknown && state.forgot:
			forgot = true // it may have been the same
			return
		case result.kind == nonzero && v.fails() && l.stops != nil:
			return // mostly an error, and the question is but whether it is tried again
		case result.kind == lost:
			w.walk.Unsure = true
		case result.kind == sought, result.kind == number && v.Kind == Constant && int32(result.v) == int32(v.N):
			return
		case v.fails() && (result.kind == failing || result.kind == number && isError(result.v)):
			return
		default:
			is = true
		}
		s.ok = false
	}
	s.from(other, &state, Possible{})
	if (!s.ok || forgot) && !is {
		w.walk.Unsure = true // there is more to try than can be tried
	}
	return is
}

// Spares reports whether the other way from the jump of a hit may lead to another result without coming by the jump of a
// later one.
func (walk *Walk) Spares(hit, later int) bool {
	if walk.Returned == nil {
		return true
	}
	is, unsure := walk.walker.leads(hit, map[int]bool{walk.walker.blockOf(later): true})
	return is || unsure
}

// Failed returns the hit on the jump that has found the error of a call to be there, for which the result was made then, or
// which it is, if all that the deciding jump could have done is to forgive it: ip_route_output_key_hash_rcu finds no route,
// and then looks whether it may do without one. failed reports whether what a hit has tested was an error. None if there is no
// such jump.
func (walk *Walk) Failed(failed func(hit int) bool) int {
	w, v := walk.walker, walk.Returned
	if v == nil || walk.Deciding == None || v.Kind != Constant && v.Kind != Result {
		return None
	}
	pass := map[int]int{} // of each hit
	for i, p := range w.passes {
		if p.Hit != None {
			pass[p.Hit] = i
		}
	}
	if c := walk.Conditions[walk.Deciding]; pass[walk.Deciding] < v.Step || c != nil && c.Left.Value.Made(v) {
		return None // it has led to where the error was made, or has found it
	}
	stops := map[int]bool{w.blockOf(walk.Deciding): true}
	if v.Kind == Constant {
		stops = map[int]bool{w.passes[v.Step].Block: true}
	}
	for hit := walk.Deciding - 1; hit >= 0; hit-- {
		c := walk.Conditions[hit]
		if v.Kind == Constant && pass[hit] >= v.Step || v.Kind == Result && pass[hit] < v.Step || w.sites[w.hits[hit].Site].Start {
			continue
		}
		found := c != nil && c.Left.Value.Returned() && c.Left.Value.Target != 0 && failed(hit)
		if v.Kind == Result {
			found = c != nil && c.Left.Value.Made(v) && !c.sorts(v)
		}
		until := stops
		if !found && v.Kind == Constant { // it may only have been done again
			until = maps.Clone(stops)
			w.calls(until, hit, failed)
		}
		is, unsure := w.leads(hit, until)
		switch {
		case unsure:
			return None
		case is && found:
			return hit
		case is && v.Kind == Constant:
			return None // the error was made for something else
		}
	}
	return None
}

// calls adds the blocks that call the function of which an error was found last before a hit.
func (w *walker) calls(blocks map[int]bool, before int, failed func(hit int) bool) {
	for hit := before - 1; hit >= 0; hit-- {
		c := w.walk.Conditions[hit]
		if c == nil || !c.Left.Value.Returned() || c.Left.Value.Target == 0 || !failed(hit) {
			continue
		}
		for i := range w.g.Blocks {
			b := &w.g.Blocks[i]
			if slices.ContainsFunc(w.g.Instructions[b.first:b.behind], func(in Instruction) bool { return in.flow == Next && in.Target == c.Left.Value.Target }) {
				blocks[i] = true
			}
		}
		return
	}
}

// blockOf returns the block of a hit.
func (w *walker) blockOf(hit int) int { return w.sites[w.hits[hit].Site].Block }

// leads reports whether the other way from the jump of a hit can lead to another result without entering some blocks.
func (w *walker) leads(hit int, without map[int]bool) (is, unsure bool) {
	b := &w.g.Blocks[w.blockOf(hit)]
	other := b.Taken
	if w.hits[hit].Taken {
		other = b.Next
	}
	before := w.walk.Unsure
	w.walk.Unsure = false
	is = w.differs(hit, other, w.walk.Returned, limits{stops: without})
	unsure = w.walk.Unsure
	w.walk.Unsure = before
	return is, unsure
}

// fails reports whether a value may be an error.
func (v *Value) fails() bool { return v.Kind != Constant || isError(uint64(v.N)) }

// fail marks what was compared with 0 at a jump and is not 0 on its other way: if a function has
// returned it, it is an error.
func (w *walker) fail(hit int, state *imagined) {
	c := w.walk.Conditions[hit]
	if c == nil || c.Common || c.Computed || !c.Right.Zero() || c.Left.Value == nil || c.Left.Value.Kind != Result || c.Size < 4 {
		return
	}
	if c.Relation != Equal && c.Relation != NotLess {
		return
	}
	at := &w.moments[hit]
	for i, held := range at.words {
		if held.Made(c.Left.Value) && state.words[i].kind == unknown {
			state.words[i].kind = failing
		}
	}
	for place, held := range at.stack {
		if s := state.stack[place]; held.Made(c.Left.Value) && s.kind == unknown {
			s.kind = failing
			state.stack[place] = s
		}
	}
}

// learn sets what a call has returned, or was in memory, to the number that a jump has found it to be before,
// and the jump itself on its other way.
func (w *walker) learn(hit int, state *imagined) {
	at := &w.moments[hit]
	for h, c := range w.walk.Conditions[:hit+1] {
		is := Equal
		if h == hit {
			is = Different // on the other way it is the same
		}
		if c == nil || c.Common || c.Computed || c.Relation != is || !c.Right.constant() || c.Left.Value == nil || c.Left.Value.From == 0 {
			continue
		}
		if k := c.Left.Value.Kind; k != Result && k != Memory { // of which an instruction makes but one
			continue
		}
		n := known{number, uint64(c.Right.Value.N), c.Size}
		for i, held := range at.words {
			if held.Made(c.Left.Value) && state.words[i].kind == unknown {
				state.words[i] = n
			}
		}
		for place, held := range at.stack {
			if s := state.stack[place]; held.Made(c.Left.Value) && s.kind == unknown {
				s.known = n
				state.stack[place] = s
			}
		}
	}
}

// as returns what is known of a value, where v is looked for.
func (held *Value) as(v *Value) known {
	switch {
	case held == nil:
		return known{}
	case held.Kind == Constant:
		return known{number, uint64(held.N), 8}
	case held.Kind == Frame:
		return known{kind: onStack, v: uint64(held.N)}
	case held.Made(v):
		return known{kind: sought}
	}
	return known{}
}

// avoids reports whether the function can be left from a block on without another one.
func (w *walker) avoids(from, without int) bool {
	if from == without {
		return false
	}
	return w.leaves(w.reached(from, without))
}

// leaves reports whether the function can be left from one of some blocks.
func (w *walker) leaves(blocks []int) bool {
	return slices.ContainsFunc(blocks, func(n int) bool { return w.g.Blocks[n].leaves && !w.stuck(n) })
}

// reached returns the blocks that can be reached from one, which is the first, without another.
func (w *walker) reached(from, without int) []int {
	seen := map[int]bool{from: true}
	reached := []int{from}
	for i := 0; i < len(reached); i++ {
		if w.stuck(reached[i]) {
			continue
		}
		for n := range w.g.follows(reached[i]) {
			if n != without && !seen[n] {
				seen[n] = true
				reached = append(reached, n)
			}
		}
	}
	return reached
}

// stuck reports whether a block calls a function that never comes back.
func (w *walker) stuck(block int) bool {
	b := &w.g.Blocks[block]
	return slices.ContainsFunc(w.g.Instructions[b.first:b.behind], func(in Instruction) bool {
		return in.flow == Next && in.Target != 0 && w.callees.kind(in.Target) == Final
	})
}
