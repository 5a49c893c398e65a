// SPDX-License-Identifier: Apache-2.0

package code

import (
	"cmp"
	"fmt"
	"slices"
)

// A Function is the machine code of a function, as it is in memory.
type Function struct {
	Arch string
	// Parts are the pieces of the code; the first begins with the entry. The compiler moves
	// what is rarely executed into a part of its own.
	Parts []Part
	// Faults are where execution goes on if an instruction faults.
	Faults []Fault `json:",omitempty"`
	// Strange are addresses outside of the function where no other begins. What jumps there may
	// come back: another tool can have put a jump in place of what was there.
	Strange []uint64 `json:",omitempty"`
}

// A Part is contiguous code.
type Part struct {
	Addr  uint64
	Bytes []byte
}

// A Fault leads from an instruction that faults to another place.
type Fault struct{ From, To uint64 }

// None stands for no block.
const None = -1

// A Block is code with one entry, at its start, and one exit, at its end.
type Block struct {
	Start, End uint64
	// Instructions are those of the block, as a range of Graph.Instructions.
	first, behind int
	// Next is the block behind it, Taken that to which it jumps, Fault where it goes on if its
	// last instruction faults; None if it does not go there.
	Next, Taken, Fault int
	// leaves says that the function can end here, by a return or a jump to another function.
	leaves bool
	// Anywhere says that it is not known where execution goes on.
	Anywhere bool
}

// A Graph is the blocks of a function that can be reached from its entry, by address.
type Graph struct {
	Arch         string
	Instructions []Instruction
	Blocks       []Block
	Entry        int // the block that calls begin with
	// Hidden says that there is code that nothing is known to lead to.
	Hidden bool
}

// MaxCode is how many bytes of one function are looked at.
const MaxCode = 1 << 20

// NewGraph finds the blocks of a function.
func NewGraph(f *Function) (*Graph, error) {
	if len(f.Parts) == 0 {
		return nil, fmt.Errorf("a function without code: %w", errShort)
	}
	size := 0
	for i := range f.Parts {
		size += len(f.Parts[i].Bytes)
		if end := f.Parts[i].Addr + uint64(len(f.Parts[i].Bytes)); end < f.Parts[i].Addr {
			return nil, fmt.Errorf("code at %#x: %w", f.Parts[i].Addr, errShort)
		}
	}
	if size > MaxCode {
		return nil, fmt.Errorf("a function of %d bytes is longer than the %d that are looked at", size, MaxCode)
	}
	b := builder{f: f, at: map[uint64]Instruction{}, leaders: map[uint64]bool{}, faults: map[uint64]uint64{}}
	for _, e := range f.Faults {
		b.faults[e.From] = e.To
	}
	b.reach(f.Parts[0].Addr)
	return b.graph(), nil
}

// A builder decodes code from where it can be reached.
type builder struct {
	f       *Function
	at      map[uint64]Instruction
	leaders map[uint64]bool
	faults  map[uint64]uint64
}

// code returns the code from an address on; nil outside of the function.
func (b *builder) code(addr uint64) []byte { return b.f.codeAt(addr) }

// codeAt returns the code from an address on; nil outside of the function.
func (f *Function) codeAt(addr uint64) []byte {
	for i := range f.Parts {
		p := &f.Parts[i]
		if addr >= p.Addr && addr-p.Addr < uint64(len(p.Bytes)) {
			return p.Bytes[addr-p.Addr:]
		}
	}
	return nil
}

// reach decodes everything that can be reached from an address.
func (b *builder) reach(entry uint64) {
	todo := []uint64{entry}
	lead := func(addr uint64) {
		if b.code(addr) != nil && !b.leaders[addr] {
			b.leaders[addr] = true
			todo = append(todo, addr)
		}
	}
	b.leaders[entry] = true
	for len(todo) > 0 {
		addr := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for {
			if _, known := b.at[addr]; known {
				break
			}
			code := b.code(addr)
			if code == nil {
				break
			}
			in, err := decode(b.f.Arch, code, addr)
			if err != nil {
				in.flow = Unknown
			}
			b.at[addr] = in
			if to, ok := b.faults[addr]; ok {
				lead(to)
				lead(in.End())
			}
			if in.flow == Jump || in.flow == Branch {
				lead(in.Target)
			}
			if in.flow == Branch {
				lead(in.End())
			}
			if in.flow != Next {
				break
			}
			addr = in.End()
		}
	}
}

// graph makes blocks of what was decoded.
func (b *builder) graph() *Graph {
	g := &Graph{Arch: b.f.Arch}
	for _, in := range b.at {
		g.Instructions = append(g.Instructions, in)
	}
	slices.SortFunc(g.Instructions, func(a, b Instruction) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := range g.Instructions {
		in := &g.Instructions[i]
		if i == 0 || b.leaders[in.Addr] || b.ends(&g.Instructions[i-1]) || g.Instructions[i-1].End() != in.Addr {
			g.Blocks = append(g.Blocks, Block{Start: in.Addr, first: i})
		}
		block := &g.Blocks[len(g.Blocks)-1]
		block.End, block.behind = in.End(), i+1
	}
	for i := range g.Blocks {
		b.lead(g, &g.Blocks[i])
	}
	g.Entry = g.blockAt(b.f.Parts[0].Addr)
	g.Hidden = b.hidden(g)
	for i := range g.Blocks {
		if last := g.last(i); last.flow == Indirect {
			// With no code that nothing leads to, it can only go to another function.
			g.Blocks[i].leaves, g.Blocks[i].Anywhere = true, g.Hidden
		}
	}
	return g
}

// ends reports whether a block ends with an instruction.
func (b *builder) ends(in *Instruction) bool {
	_, faults := b.faults[in.Addr]
	return in.flow != Next || faults
}

// lead sets where a block leads.
func (b *builder) lead(g *Graph, block *Block) {
	block.Next, block.Taken, block.Fault = None, None, None
	last := &g.Instructions[block.behind-1]
	follow := func(addr uint64) int {
		if b.code(addr) == nil {
			return None
		}
		return g.blockAt(addr)
	}
	switch last.flow {
	case Leave:
		block.leaves = true
	case Unknown:
		block.Anywhere, block.leaves = true, true
	case Jump, Branch:
		block.Taken = follow(last.Target)
		block.leaves = block.Taken == None
		block.Anywhere = block.leaves && slices.Contains(b.f.Strange, last.Target)
	}
	if last.flow == Next || last.flow == Branch {
		// Behind the end there is nothing: the last call does not come back.
		block.Next = follow(last.End())
	}
	if to, ok := b.faults[last.Addr]; ok {
		block.Fault = follow(to)
	}
}

// hidden reports whether there is code besides the blocks that is not there to fill up room.
func (b *builder) hidden(g *Graph) bool {
	for i := range b.f.Parts {
		p := &b.f.Parts[i]
		for addr, end := p.Addr, p.Addr+uint64(len(p.Bytes)); addr < end; {
			if n := g.blockWith(addr); n != None {
				addr = g.Blocks[n].End
				continue
			}
			in, err := decode(b.f.Arch, b.code(addr), addr)
			if err != nil || !in.padding {
				return true
			}
			addr = in.End()
		}
	}
	return false
}

// Outside yields the addresses outside of the function that it jumps to.
func (g *Graph) Outside() func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := range g.Blocks {
			last := g.last(i)
			if (last.flow == Jump || last.flow == Branch) && g.Blocks[i].Taken == None && !yield(last.Target) {
				return
			}
		}
	}
}

// last is the last instruction of a block.
func (g *Graph) last(block int) *Instruction { return &g.Instructions[g.Blocks[block].behind-1] }

// JumpTarget returns where the jump at the end of a block leads to.
func (g *Graph) JumpTarget(block int) uint64 { return g.last(block).Target }

// Other returns the block that the jump at the end of a block has not led to, behind blocks that do nothing but jump; None if it
// leads out of the function.
func (g *Graph) Other(block int, taken bool) int {
	to := g.Blocks[block].Taken
	if taken {
		to = g.Blocks[block].Next
	}
	for range len(g.Blocks) { // such blocks may lead to each other
		if to == None || g.Blocks[to].behind-g.Blocks[to].first != 1 || g.last(to).flow != Jump {
			break
		}
		to = g.Blocks[to].Taken
	}
	return to
}

// blockAt returns the block that starts at an address, or None.
func (g *Graph) blockAt(addr uint64) int {
	n, ok := slices.BinarySearchFunc(g.Blocks, addr, func(b Block, a uint64) int { return cmp.Compare(b.Start, a) })
	if !ok {
		return None
	}
	return n
}

// blockWith returns the block with the code at an address, or None.
func (g *Graph) blockWith(addr uint64) int {
	n, ok := slices.BinarySearchFunc(g.Blocks, addr, func(b Block, a uint64) int { return cmp.Compare(b.Start, a) })
	if !ok {
		n--
	}
	if n < 0 || addr >= g.Blocks[n].End {
		return None
	}
	return n
}

// follows yields the blocks that a block leads to.
func (g *Graph) follows(block int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		b := &g.Blocks[block]
		for _, n := range [...]int{b.Next, b.Taken, b.Fault} {
			if n != None && !yield(n) {
				return
			}
		}
	}
}
