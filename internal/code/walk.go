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
	// is none, or it is not known. A jump that could only have avoided the call whose result was
	// returned is none.
	Deciding int
	// Unsure says that there may be such a jump, and that it is not known: the way has a gap, or
	// the result was kept where that cannot be followed.
	Unsure bool

	walker *walker
}

// Walk follows the values along the way of a call that was seen at sites. callees are the
// functions that the code calls; the others are taken for such of which nothing is known. null says
// that the call has failed by returning NULL.
func (f *Function) Walk(g *Graph, sites []Site, hits []Hit, callees Callees, null bool) *Walk {
	w := walker{f: f, g: g, sites: sites, hits: hits, passes: g.Trail(sites, hits), callees: callees, machine: machineOf(f.Arch), null: null, moments: make([]moment, len(hits))}
	w.walk.Conditions, w.walk.Deciding = make([]*Condition, len(hits)), None
	w.run()
	w.decide()
	w.walk.walker = &w
	return &w.walk
}

// A walker executes what is known of the way of one call.
type walker struct {
	f       *Function
	g       *Graph
	sites   []Site
	hits    []Hit
	passes  []Pass
	callees Callees
	machine *machine // nil if no instructions of the architecture are executed
	null    bool     // the call has failed by returning NULL

	step    int
	words   []*Value // what the registers hold
	stack   map[int64]held
	taken   *int64      // the lowest place on the stack whose address others may know
	compare *Comparison // what the flags say
	walk    Walk
	moments []moment // at each hit
	// facts are conditions that hold during the whole call, as that an argument is a number. Imagined other ways keep to them.
	facts []*Condition
	first map[int]int // of each block, the first pass; nil: not needed yet
	// searched counts the steps of all searches.
	searched int
}

// A moment is what registers and the stack held.
type moment struct {
	words []*Value
	stack map[int64]held
	taken *int64
}

// A held is what was stored on the stack, in size bytes.
type held struct {
	*Value
	size int
}

// reset forgets all values.
func (w *walker) reset() {
	clear(w.words)
	w.stack, w.compare = map[int64]held{}, nil
}

// mostExecuted is how many instructions of one call are executed: a recording says which there are.
const mostExecuted = 1 << 17

func (w *walker) run() {
	w.words = make([]*Value, len(ptregs.Names(w.f.Arch)))
	w.reset()
	if w.machine == nil {
		return
	}
	for i, name := range ptregs.Names(w.f.Arch) {
		if name != "" {
			w.words[i] = &Value{Kind: Argument, Word: i, From: w.f.Parts[0].Addr}
		}
	}
	w.words[w.machine.pointer] = &Value{Kind: Frame}
	done := 0
	for i, p := range w.passes {
		w.step = i
		if p.Block == None {
			w.reset()
			continue
		}
		b := &w.g.Blocks[p.Block]
		if done += b.behind - b.first; done > mostExecuted {
			w.passes = append(w.passes[:i:i], Pass{None, None})
			return
		}
		for n := b.first; n < b.behind; n++ {
			in := &w.g.Instructions[n]
			w.execute(in)
		}
		if p.Hit != None {
			w.decided(p.Hit)
		}
		if b.Fault != None && b.Fault == b.Next {
			w.faulted()
		}
	}
	w.end()
}

// execute executes an instruction.
func (w *walker) execute(in *Instruction) {
	if w.f.Arch == "arm64" {
		w.executeARM64(in)
	} else {
		w.executeAMD64(in)
	}
}

// faulted makes the registers unknown where an access of user space goes on whether it has faulted or
// not: the kernel has said so in one of them, and cleared another.
func (w *walker) faulted() {
	sp := w.words[w.machine.pointer]
	clear(w.words)
	w.words[w.machine.pointer] = sp
}

// decided notes the condition of a jump.
func (w *walker) decided(hit int) {
	w.moments[hit] = moment{slices.Clone(w.words), maps.Clone(w.stack), w.taken}
	s := &w.sites[w.hits[hit].Site]
	compare := w.compare
	if !s.Test.flags() {
		compare = w.tests(s)
	}
	if compare == nil || s.Compare != compare.Addr {
		return
	}
	c := &Condition{Comparison: *compare}
	w.kept(&c.Left, s)
	w.kept(&c.Right, s)
	c.Relation, c.Unsigned = c.relation(s.Test)
	if !w.hits[hit].Taken {
		c.Relation = c.Relation.Not()
	}
	w.walk.Conditions[hit] = c
}

// tests returns what a jump compares by itself: a register with 0, or one bit of it.
func (w *walker) tests(s *Site) *Comparison {
	c := &Comparison{Addr: s.Addr, Size: s.Test.Bits / 8, Left: Side{Operand: None, Value: w.words[s.Test.Word]}, Right: Side{Operand: None, Value: &Value{Kind: Constant}}}
	if len(s.Operands) > 0 {
		c.Left.Operand, c.Left.text = 0, s.Operands[0].Text
	}
	if s.Test.bit() {
		if c.Size = 4; s.Test.Bits >= 32 {
			c.Size = 8
		}
		if !s.Test.sign() {
			c.Common, c.Right.Value = true, &Value{Kind: Constant, N: 1 << s.Test.Bits}
		}
	}
	return c
}

// kept sets which operand of a site a side is: it may have lost some that the comparison had.
func (w *walker) kept(side *Side, s *Site) {
	if side.Operand != None {
		side.Operand = slices.IndexFunc(s.Operands, func(o Operand) bool { return o.Text == side.text })
	}
}

// end finds what the call has returned.
func (w *walker) end() {
	if len(w.passes) == 0 {
		return
	}
	last := w.passes[len(w.passes)-1]
	if last.Block == None || !w.g.Blocks[last.Block].leaves {
		return
	}
	in := w.g.last(last.Block)
	switch {
	case in.flow == Leave, (in.flow == Jump || in.flow == Branch) && w.callees.kind(in.Target) == Return:
		w.walk.Returned = w.words[w.machine.result]
	case in.flow == Indirect, in.flow == Jump, in.flow == Branch && last.Hit != None && w.hits[last.Hit].Taken:
		w.walk.Returned = w.result(in) // of another function, which returns to the caller
	}
}

// result returns what a call or jump to another function leaves where results are.
func (w *walker) result(in *Instruction) *Value {
	v := &Value{Kind: Opaque, From: in.Addr, Step: w.step, handed: w.handed()}
	switch kind := w.callees.kind(in.Target); {
	case in.Target == 0, kind == Through:
		v.Kind = Result
	case kind == Strange:
		if f := w.callees.At(in.Target); f != nil && f.Name != "" {
			v.Target = in.Target
		}
	case kind == Returning:
		v.Kind, v.Target = Result, in.Target
	}
	return v
}

// handed reports whether an argument of a function that is called now is an error, as with dev_err_probe.
func (w *walker) handed() bool {
	return slices.ContainsFunc(ptregs.Arguments(w.f.Arch), func(word int) bool {
		v := w.words[word]
		return v != nil && v.Kind == Constant && isError(uint64(v.N))
	})
}
