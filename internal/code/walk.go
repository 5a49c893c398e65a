// SPDX-License-Identifier: Apache-2.0

package code

import (
	"maps"
	"slices"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// A Walk is what the code says of the values that decided a call, along the way that it took.
type Walk struct {
	// Conditions are those of the jumps that the call came by, by the index of the hit; nil of
	// what no comparison is known.
	Conditions []*Condition
	// Returned is what the call has returned; nil if that is not known.
	Returned *Value
	// Deciding is the hit on the last jump that could have led to another result; None if there
	// is none, or it is not known.
	Deciding int
	// Unsure says that the last jump of that kind is not known, since the result was kept where
	// that cannot be followed.
	Unsure bool
	// Chosen is the comparison before an instruction that made the result without a jump; nil
	// if there is none.
	Chosen *Comparison
}

// Others say what is special about other functions, by where they begin. A nil one says that
// none is.
type Others struct {
	Returns func(addr uint64) bool // a jump to it is a return, as to a thunk for returns
	Ends    func(addr uint64) bool // it never comes back, as __stack_chk_fail
}

func (o *Others) returns(addr uint64) bool { return o.Returns != nil && o.Returns(addr) }
func (o *Others) ends(addr uint64) bool    { return o.Ends != nil && o.Ends(addr) }

// Walk follows the values along the way of a call that was seen at sites.
func (f *Function) Walk(g *Graph, sites []Site, hits []Hit, others Others) *Walk {
	w := walker{f: f, g: g, sites: sites, hits: hits, passes: g.Trail(sites, hits), others: others, moments: make([]moment, len(hits))}
	w.walk.Conditions, w.walk.Deciding = make([]*Condition, len(hits)), None
	w.run()
	w.decide()
	return &w.walk
}

// A walker executes what is known of the way of one call.
type walker struct {
	f      *Function
	g      *Graph
	sites  []Site
	hits   []Hit
	passes []Pass
	others Others

	step    int
	words   []*Value // what the registers hold
	stack   map[int64]*Value
	taken   *int64      // the lowest place on the stack whose address was computed
	compare *Comparison // what the flags say
	walk    Walk
	moments []moment // at each hit
}

// A moment is what registers and the stack held.
type moment struct {
	words []*Value
	stack map[int64]*Value
	taken *int64
}

// reset forgets all values.
func (w *walker) reset() {
	clear(w.words)
	w.stack, w.compare = map[int64]*Value{}, nil
}

func (w *walker) run() {
	w.words = make([]*Value, len(ptregs.Names(w.f.Arch)))
	w.reset()
	machine := machineOf(w.f.Arch)
	if machine == nil {
		return
	}
	for i, name := range ptregs.Names(w.f.Arch) {
		if name != "" {
			w.words[i] = &Value{Kind: Argument, Word: i, From: w.f.Parts[0].Addr}
		}
	}
	w.words[machine.pointer] = &Value{Kind: Frame}
	for i, p := range w.passes {
		w.step = i
		if p.Block == None {
			w.reset()
			continue
		}
		b := &w.g.Blocks[p.Block]
		for n := b.first; n < b.behind; n++ {
			in := &w.g.Instructions[n]
			machine.execute(w, in)
		}
		if p.Hit != None {
			w.decided(p.Hit)
		}
	}
	w.end(machine)
}

// decided notes the condition of a jump.
func (w *walker) decided(hit int) {
	w.moments[hit] = moment{slices.Clone(w.words), maps.Clone(w.stack), w.taken}
	s := &w.sites[w.hits[hit].Site]
	if w.compare == nil || s.Test.Kind != FlagsAMD64 || s.Compare != w.compare.Addr {
		return
	}
	c := &Condition{Comparison: *w.compare}
	c.Relation, c.Unsigned = c.relation(s.Test)
	if !w.hits[hit].Taken {
		c.Relation = c.Relation.Not()
	}
	w.walk.Conditions[hit] = c
}

// end finds what the call has returned.
func (w *walker) end(m *machine) {
	if len(w.passes) == 0 {
		return
	}
	last := w.passes[len(w.passes)-1]
	if last.Block == None || !w.g.Blocks[last.Block].leaves {
		return
	}
	in := w.g.last(last.Block)
	switch {
	case in.flow == Leave, in.flow == Jump && w.others.returns(in.Target):
		w.walk.Returned = w.words[m.result]
	case in.flow == Jump: // to another function, which returns to the caller
		w.walk.Returned = &Value{Kind: Result, Target: in.Target, From: in.Addr, Step: w.step}
	case in.flow == Branch && last.Hit != None && w.hits[last.Hit].Taken:
		if w.others.returns(in.Target) {
			w.walk.Returned = w.words[m.result]
		} else {
			w.walk.Returned = &Value{Kind: Result, Target: in.Target, From: in.Addr, Step: w.step}
		}
	}
	if v := w.walk.Returned; v != nil && v.Kind == Chosen {
		w.walk.Chosen = w.compare
	}
}

// A machine executes instructions of an architecture.
type machine struct {
	pointer, result int // the words of the stack pointer and of results
	execute         func(w *walker, in *Instruction)
}

func machineOf(arch string) *machine {
	if arch != "amd64" {
		return nil
	}
	return &machine{pointer: wordAMD64("sp"), result: wordAMD64("ax"), execute: (*walker).executeAMD64}
}
