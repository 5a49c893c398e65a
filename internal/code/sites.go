// SPDX-License-Identifier: Apache-2.0

package code

import "slices"

// A Site is an instruction with a probe.
type Site struct {
	Addr  uint64
	Block int
	// Start says that the probe sees that the block is entered. Else it is on the conditional
	// jump that ends the block, and sees which way that goes.
	Start    bool      `json:",omitempty"`
	Test     Test      // of a jump
	Compare  uint64    // of a jump: the address of what it depends on; 0: not known
	Operands []Operand // what is compared, two at most
}

// Sites returns where probes tell which way a call takes, by address: on each conditional jump,
// since the way between two blocks may have no block of its own, and where faults lead to.
// refused tells which instructions take no probe; it may be nil. Where a jump takes none, a
// block that only it leads to may tell.
func (g *Graph) Sites(refused func(addr uint64) bool) []Site {
	var sites []Site
	into, before := g.into(), g.onlyBefore()
	start := make([]bool, len(g.Blocks))
	accepts := func(addr uint64) bool { return refused == nil || !refused(addr) }
	for i := range g.Blocks {
		if f := g.Blocks[i].Fault; f != None {
			start[f] = true
		}
		if !g.forks(i) || accepts(g.last(i).Addr) {
			continue
		}
		for n := range g.follows(i) {
			if into[n] == 1 && n != g.Entry && accepts(g.Blocks[n].Start) {
				start[n] = true
				break
			}
		}
	}
	for i := range g.Blocks {
		last := g.last(i)
		if start[i] && accepts(g.Blocks[i].Start) && (!g.forks(i) || g.Blocks[i].Start != last.Addr) {
			sites = append(sites, Site{Addr: g.Blocks[i].Start, Block: i, Start: true})
		}
		if g.forks(i) && accepts(last.Addr) {
			s := Site{Addr: last.Addr, Block: i, Test: last.Test}
			s.Compare, s.Operands = g.compared(i, before)
			sites = append(sites, s)
		}
	}
	return sites
}

// forks reports whether a block ends with a jump that decides something.
func (g *Graph) forks(block int) bool {
	b := &g.Blocks[block]
	return g.last(block).flow == Branch && b.Next != b.Taken
}

// into counts for each block how many ways lead to it.
func (g *Graph) into() []int {
	into := make([]int, len(g.Blocks))
	for i := range g.Blocks {
		for n := range g.follows(i) {
			into[n]++
		}
	}
	return into
}

const (
	// maxOperands is how many operands of a compare are read.
	maxOperands = 2
	// maxBetween is how many instructions may lie between a compare and its jump.
	maxBetween = 64
)

// compared finds what the jump at the end of a block depends on, and those operands of it that
// are still what they were.
func (g *Graph) compared(block int, onlyBefore []int) (addr uint64, operands []Operand) {
	jump := g.last(block)
	if !jump.Test.flags() {
		return jump.Addr, jump.operands
	}
	written, stored := []int{}, false
	i := g.Blocks[block].behind - 2
	for {
		if i < g.Blocks[block].first { // a compare may serve several jumps
			before := onlyBefore[block]
			if before == None {
				return 0, nil
			}
			block, i = before, g.Blocks[before].behind-1
			continue
		}
		in := &g.Instructions[i]
		if in.flags {
			return in.Addr, intact(in.operands, written, stored)
		}
		written, stored = append(written, in.writes), stored || in.stores
		if len(written) > maxBetween {
			return 0, nil
		}
		i--
	}
}

// onlyBefore returns for each block the one that it is always entered from, if that lies before
// it; else None.
func (g *Graph) onlyBefore() []int {
	before := slices.Repeat([]int{None}, len(g.Blocks))
	into := g.into()
	for i := range g.Blocks {
		for n := range g.follows(i) {
			if into[n] == 1 && i < n && n != g.Entry { // no loops
				before[n] = i
			}
		}
	}
	return before
}

// intact returns those operands that instructions behind them have not changed.
func intact(operands []Operand, written []int, stored bool) []Operand {
	var out []Operand
	for _, o := range operands {
		ok := !o.Memory || !stored
		for _, w := range written {
			ok = ok && w != anyWord && (w == noWord || w != o.Base && w != o.Index)
		}
		if ok && len(out) < maxOperands {
			out = append(out, o)
		}
	}
	return out
}
