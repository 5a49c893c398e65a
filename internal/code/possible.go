// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// A Possible is one way that a call can have gone, as far as its code and what it was called
// with say.
type Possible struct {
	Hits []Hit
	// Values are the operands of each hit, Known says which of them are known.
	Values [][maxOperands]uint64
	Known  [][maxOperands]bool
	// Result is what it returns, at least its lower half, if Ended says that this is known.
	Result uint64
	Ended  bool
	// Beyond says that it makes more calls of a function than were seen.
	Beyond bool
}

const (
	// mostPossible is how many ways are looked at.
	mostPossible = 1 << 9
	// mostSteps bounds the instructions of all ways together, of all searches of one walk.
	mostSteps = 1 << 16
)

// A Given is a register that is known when a function is called, in its lowest Size bytes.
type Given struct {
	Word  int
	Value uint64
	Size  int
}

// A Called says what the calls of one function returned that were seen within the call: all of them
// returned the same, in the lowest Size bytes of the result register.
type Called struct {
	Addr   uint64
	Result uint64
	Size   int
	Calls  int // how many were seen
}

// Possible returns all ways that a call of a function can have gone for which some registers are
// given, and what some of the functions that it called have returned. Nothing else is assumed of
// memory, and of what other functions do but the calling convention.
// ok is false if the code is not understood, or there are too many ways.
func (f *Function) Possible(g *Graph, sites []Site, given []Given, called []Called, callees Callees) (ways []Possible, ok bool) {
	machine := machineOf(f.Arch)
	if machine == nil {
		return nil, false
	}
	s := search{walker: walker{f: f, g: g, sites: sites, callees: callees, machine: machine}, follower: newFollower(g, sites), called: called, steps: new(int), ok: true}
	s.ended = func(state *imagined, way *Possible, result known) {
		way.Beyond = state.beyond(called)
		way.Result, way.Ended = result.v, result.kind == number && result.size >= 4
		s.ways = append(s.ways, *way)
		s.ok = s.ok && len(s.ways) < mostPossible
	}
	state := imagined{machine: machine, words: make([]known, len(ptregs.Names(f.Arch))), stack: map[int64]slot{}, calls: make([]int, len(called))}
	for _, a := range given {
		state.words[a.Word] = known{number, a.Value, a.Size}
	}
	state.words[machine.pointer] = known{kind: onStack}
	s.from(g.Entry, &state, Possible{})
	return s.ways, s.ok && len(s.ways) > 0
}

// A search finds ways.
type search struct {
	walker
	follower *follower // which sites there are; nil if the hits do not matter
	called   []Called
	ended    func(state *imagined, way *Possible, result known)
	ways     []Possible
	steps    *int            // so far
	seen     map[string]bool // states that were there, by the block; nil if the hits matter
	ok       bool            // go on
	// visits counts how often each block was entered, if what is counted there may be forgotten; else nil.
	visits []int
	limits
}

// limits are what a search does not try.
type limits struct {
	stops map[int]bool // blocks at which a way ends, without a result
	fixed map[int]bool // of blocks, whether the jump at the end is taken
}

// mostVisits is how often a block is entered with other numbers. A loop that counts would be gone
// through for ever.
const mostVisits = 32

// from goes on from a block.
func (s *search) from(block int, state *imagined, way Possible) {
	for s.ok {
		b := &s.g.Blocks[block]
		if s.stops[block] {
			return
		}
		if s.visits != nil {
			if s.visits[block]++; s.visits[block] > mostVisits {
				state.widen()
			}
		}
		if s.seen != nil {
			key := state.key(block)
			if s.seen[key] {
				return // all that can follow is known
			}
			s.seen[key] = true
		}
		if *s.steps += b.behind - b.first; *s.steps > mostSteps {
			s.ok = false
			return
		}
		if s.follower != nil && s.follower.start[block] != None {
			way.add(Hit{Site: s.follower.start[block]}, nil, state)
		}
		if s.stuck(block) {
			return
		}
		for i := b.first; i < b.behind; i++ {
			if s.callees.keeps(&s.g.Instructions[i]) {
				state.disturb()
				state.flags = known{}
				continue
			}
			state.execute(s.f, &s.g.Instructions[i])
			s.returned(&s.g.Instructions[i], state)
		}
		if b.Fault != None {
			faulted := state.clone()
			faulted.forget() // the instruction was not executed
			s.from(b.Fault, faulted, way.clone())
		}
		next := s.next(block, state, &way)
		if next == None {
			return
		}
		block = next
	}
}

// execute executes an instruction.
func (m *imagined) execute(f *Function, in *Instruction) {
	if f.Arch == "arm64" {
		m.executeARM64(f, in)
	} else {
		m.executeAMD64(f, in)
	}
}

// returned sets the result of a call that was seen. Of those beyond the seen ones nothing is known.
func (s *search) returned(in *Instruction, state *imagined) {
	if in.flow != Next || in.Target == 0 {
		return // no direct call
	}
	i := slices.IndexFunc(s.called, func(c Called) bool { return c.Addr == in.Target })
	if i < 0 {
		return
	}
	if state.calls[i]++; state.calls[i] <= s.called[i].Calls {
		state.words[s.machine.result] = known{number, s.called[i].Result, s.called[i].Size}
	}
}

// tested notes what a jump says of the result of a call that was compared with 0.
func (m *imagined) tested(test Test, taken bool) {
	call := m.flags
	if !test.flags() {
		call = m.words[test.Word]
	}
	if call.kind != made || test.bit() && !test.sign() {
		return
	}
	c := Comparison{Right: Side{Value: &Value{Kind: Constant}}}
	relation, unsigned := c.relation(test)
	if !taken {
		relation = relation.Not()
	}
	var is known
	switch {
	case relation == Equal:
		is = known{number, 0, 4}
	case relation == Different:
		is = known{kind: nonzero}
	case relation == Less && !unsigned:
		is = known{kind: failing}
	default:
		return
	}
	m.replace(call.v, is)
}

// decides returns the word that a jump tests; ok is false if it is not known.
func (m *imagined) decides(test Test) (word uint64, ok bool) {
	if test.flags() {
		return m.flagsFor()
	}
	v := m.words[test.Word]
	bits := test.Bits
	if test.bit() {
		bits++
	}
	return v.v, v.kind == number && 8*v.size >= bits
}

// call executes a call: what the called function may change is unknown then.
func (m *imagined) call(in *Instruction) {
	for _, word := range m.machine.changed {
		m.words[word] = known{}
	}
	m.disturb()
	m.flags = known{}
	m.replace(in.Addr, known{}) // what it has returned before
	m.words[m.machine.result] = known{kind: made, v: in.Addr}
}

// replace replaces what a call returned.
func (m *imagined) replace(call uint64, by known) {
	for i, k := range m.words {
		if k.kind == made && k.v == call {
			m.words[i] = by
		}
	}
	for at, s := range m.stack {
		if s.kind == made && s.v == call {
			m.stack[at] = slot{by, s.size}
		}
	}
}

// beyond reports whether there were more calls than those that were seen.
func (m *imagined) beyond(called []Called) bool {
	for i, n := range m.calls {
		if n > called[i].Calls {
			return true
		}
	}
	return false
}

// next returns the block behind one, None if the way has ended there. Where both ways are
// possible, it goes one of them to its end.
func (s *search) next(block int, state *imagined, way *Possible) int {
	b, last := &s.g.Blocks[block], s.g.last(block)
	switch {
	case b.Anywhere || last.flow == Unknown:
		s.ok = false
		return None
	case last.flow == Branch && b.Next != b.Taken:
		return s.branch(block, state, way)
	case b.leaves:
		s.end(last, state, way)
		return None
	case b.Taken != None:
		return b.Taken
	}
	return b.Next
}

// branch goes on behind a conditional jump.
func (s *search) branch(block int, state *imagined, way *Possible) int {
	last := s.g.last(block)
	hit := func(taken bool, way *Possible, state *imagined) {}
	if s.follower != nil {
		n := s.follower.branch[block]
		if n == None {
			s.ok = false
			return None
		}
		hit = func(taken bool, way *Possible, state *imagined) { way.add(Hit{n, taken}, &s.sites[n], state) }
	}
	if taken, ok := s.fixed[block]; ok {
		return s.went(block, taken, state, way)
	}
	if word, ok := state.decides(last.Test); ok {
		taken := last.Test.Taken(word)
		hit(taken, way, state)
		return s.went(block, taken, state, way)
	}
	other, too := state.clone(), way.clone()
	other.tested(last.Test, true)
	state.tested(last.Test, false)
	hit(true, &too, other)
	if to := s.went(block, true, other, &too); to != None {
		s.from(to, other, too)
	}
	hit(false, way, state)
	return s.went(block, false, state, way)
}

// went returns where a jump leads.
func (s *search) went(block int, taken bool, state *imagined, way *Possible) int {
	b := &s.g.Blocks[block]
	if !taken {
		return b.Next
	}
	if b.Taken == None {
		s.end(s.g.last(block), state, way)
	}
	return b.Taken
}

// end ends a way at an instruction that leaves the function.
func (s *search) end(in *Instruction, state *imagined, way *Possible) {
	var result known // of another function that it ends with
	if in.flow == Leave || (in.flow == Jump || in.flow == Branch) && s.callees.kind(in.Target) == Return {
		result = state.words[s.machine.result]
	}
	s.ended(state, way, result)
}

// add notes a hit, with the values that its operands have.
func (p *Possible) add(h Hit, site *Site, state *imagined) {
	var values [maxOperands]uint64
	var is [maxOperands]bool
	if site != nil {
		for i := range site.Operands {
			o := &site.Operands[i]
			if v := state.operand(o); v.kind == number && v.size >= o.Size+o.Shift/8 {
				values[i], is[i] = v.v, true
			}
		}
	}
	p.Hits, p.Values, p.Known = append(p.Hits, h), append(p.Values, values), append(p.Known, is)
}

func (p *Possible) clone() Possible {
	return Possible{Hits: slices.Clone(p.Hits), Values: slices.Clone(p.Values), Known: slices.Clone(p.Known)}
}

// A known is what is known of a value.
type known struct {
	kind knownKind
	v    uint64 // of onStack: as seen from the return address
	size int    // of a number: of how many bytes it is known, the lowest
}

type knownKind uint8

const (
	unknown knownKind = iota
	number
	onStack // an address on the stack
	sought  // the value that is looked for
	lost    // perhaps that value
	failing // an error, or what a function returned that is not 0
	made    // what the call at v returned last. Flags of this kind are of its comparison with 0
	nonzero // what a call has returned that is not 0: an error, or a count
)

// A slot is what was stored on the stack.
type slot struct {
	known
	size int
}

// An imagined is what is known at one moment of a way.
type imagined struct {
	machine *machine
	words   []known
	stack   map[int64]slot
	// shared is the lowest place on the stack whose address may be known elsewhere.
	shared *int64
	flags  known
	forgot bool  // what is unknown may have been known
	calls  []int // how many, of each of the functions whose results were seen
}

func (m *imagined) clone() *imagined {
	c := *m
	c.words, c.stack, c.calls = slices.Clone(m.words), maps.Clone(m.stack), slices.Clone(m.calls)
	return &c
}

// key tells states at the begin of a block apart.
func (m *imagined) key(block int) string {
	le := binary.LittleEndian
	dst := le.AppendUint32(nil, uint32(block))
	add := func(k known) { dst = le.AppendUint64(append(dst, byte(k.kind), byte(k.size)), k.v) }
	for _, k := range m.words {
		add(k)
	}
	add(m.flags)
	if m.forgot {
		dst = append(dst, 1)
	}
	if m.shared != nil {
		dst = le.AppendUint64(dst, uint64(*m.shared))
	}
	for _, at := range slices.Sorted(maps.Keys(m.stack)) {
		dst = le.AppendUint64(append(dst, byte(m.stack[at].size)), uint64(at))
		add(m.stack[at].known)
	}
	return string(dst)
}

// forget makes all unknown but where the stack is.
func (m *imagined) forget() {
	m.forgot = true
	sp := m.machine.pointer
	kept := m.words[sp]
	var none known
	if m.has(sought) || m.has(lost) {
		none.kind = lost
	}
	for i := range m.words {
		m.words[i] = none
	}
	for at, s := range m.stack {
		m.stack[at] = slot{none, s.size}
	}
	m.words[sp], m.flags = kept, known{}
}

// widen forgets which numbers there are, other than that some are errors.
func (m *imagined) widen() {
	for i := range m.words {
		m.words[i] = m.words[i].widened()
	}
	for at, s := range m.stack {
		m.stack[at] = slot{s.widened(), s.size}
	}
	m.flags = known{}
}

func (k known) widened() known {
	switch {
	case k.kind != number:
		return k
	case k.size >= 4 && isError(k.v):
		return known{kind: failing}
	}
	return known{}
}

// has reports whether a register or the stack holds something of a kind.
func (m *imagined) has(kind knownKind) bool {
	for _, s := range m.stack {
		if s.kind == kind {
			return true
		}
	}
	return slices.ContainsFunc(m.words, func(k known) bool { return k.kind == kind })
}

// flagsFor returns the flags; ok is false if they are not known.
func (m *imagined) flagsFor() (v uint64, ok bool) { return m.flags.v, m.flags.kind == number }

// escape notes that an address on the stack is used for more than one access.
func (m *imagined) escape(v known) {
	if at := int64(v.v); v.kind == onStack && (m.shared == nil || at < *m.shared) {
		m.shared = &at
	}
}

// disturb makes what others may have changed on the stack unknown.
func (m *imagined) disturb() {
	if m.shared == nil {
		return
	}
	for at, s := range m.stack {
		switch {
		case at+int64(s.size) <= *m.shared:
		case s.kind == sought:
			m.stack[at] = slot{known{kind: lost}, s.size}
		case s.kind != lost:
			delete(m.stack, at)
		}
	}
}

// operand returns the value of an operand of a site.
func (m *imagined) operand(o *Operand) known {
	if !o.Memory {
		return m.words[o.Base]
	}
	if o.Base < 0 || o.Index >= 0 {
		return known{}
	}
	return m.load(m.words[o.Base], o.Disp, o.Size)
}

// load returns what is in memory.
func (m *imagined) load(base known, disp int64, size int) known {
	if base.kind != onStack {
		return known{}
	}
	if s, ok := m.stack[int64(base.v)+disp]; ok && s.size == size {
		return s.known
	}
	return known{}
}

// store changes memory.
func (m *imagined) store(base known, disp int64, size int, v known) {
	if base.kind != onStack {
		m.disturb()
		return
	}
	at := int64(base.v) + disp
	maps.DeleteFunc(m.stack, func(other int64, s slot) bool { return other < at+int64(size) && at < other+int64(s.size) })
	if len(m.stack) >= mostSlots {
		if m.has(sought) || m.has(lost) {
			v = known{kind: lost} // as all that is forgotten
		}
		clear(m.stack)
	}
	m.stack[at] = slot{v, size}
}
