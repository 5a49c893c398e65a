// SPDX-License-Identifier: Apache-2.0

package code

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomGraph makes a function of n blocks that lead to each other as they like, forward more
// often than back.
func randomGraph(r *rand.Rand, n int) *Graph {
	g := &Graph{}
	for i := range n {
		b := Block{Start: uint64(0x1000 + 16*i), first: i, behind: i + 1, Next: None, Taken: None, Fault: None}
		in := Instruction{Addr: b.Start, Len: 16}
		b.End = b.Start + 16
		anywhere := func() int {
			if r.IntN(4) == 0 {
				return r.IntN(n)
			}
			return min(n-1, i+1+r.IntN(4))
		}
		next := i + 1
		switch k := r.IntN(10); {
		case i == n-1 || k == 0:
			in.flow, b.leaves = Leave, true
		case k < 6:
			in.flow, b.Next, b.Taken = Branch, next, anywhere()
			if r.IntN(12) == 0 { // to another function
				b.Taken, b.leaves = None, true
			}
		case k < 7:
			in.flow, b.Taken = Jump, anywhere()
		case k < 8:
			b.Next, b.Fault = next, anywhere()
		default:
			b.Next = next
		}
		g.Blocks, g.Instructions = append(g.Blocks, b), append(g.Instructions, in)
	}
	return g
}

// walk takes a random way of at most so many blocks. It returns what it entered, and what sites
// saw.
func walk(r *rand.Rand, g *Graph, sites []Site, most int) (entered []bool, hits []Hit, returned bool) {
	f := newFollower(g, sites)
	entered = make([]bool, len(g.Blocks))
	n := g.Entry
	for range most {
		entered[n] = true
		b := &g.Blocks[n]
		if s := f.start[n]; s != None {
			hits = append(hits, Hit{Site: s})
		}
		next := []int{}
		switch g.last(n).flow {
		case Leave:
			return entered, hits, true
		case Branch:
			taken := r.IntN(2) == 0
			if s := f.branch[n]; s != None {
				hits = append(hits, Hit{Site: s, Taken: taken})
			}
			if next = []int{b.Next}; taken {
				next = []int{b.Taken}
			}
		default:
			for m := range g.follows(n) {
				next = append(next, m)
			}
		}
		if n = next[r.IntN(len(next))]; n == None {
			return entered, hits, true
		}
	}
	return entered, hits, false
}

// TestFollow takes random ways through random functions: no block may be said to be passed that
// was not, or the other way round. Where each site takes a probe and nothing faults, nothing is
// unsure.
func TestFollow(t *testing.T) {
	unsure, blocks, exact := 0, 0, 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := randomGraph(r, 2+r.IntN(24))
		some := seed%2 == 0
		refused := map[uint64]bool{}
		if some {
			for range r.IntN(4) {
				refused[g.Blocks[r.IntN(len(g.Blocks))].Start] = true
			}
		}
		sites := g.Sites(func(addr uint64) bool { return refused[addr] })
		entered, hits, returned := walk(r, g, sites, 200)
		first, last := hits, []Hit(nil)
		if !returned { // as if the rest had not been kept
			first, last = hits[:len(hits)/3], hits[len(hits)/2:len(hits)/2]
		} else if seed%5 == 0 && len(hits) > 3 {
			first, last = hits[:len(hits)/3], hits[len(hits)/2:]
		}
		gap := !returned || len(last) > 0
		way := g.Follow(sites, first, last, gap)
		for i, s := range way.Blocks {
			if s == Passed && !entered[i] || s == NotPassed && entered[i] {
				t.Fatalf("seed %d: block %d: state %d, entered %v; %d sites, hits %v", seed, i, s, entered[i], len(sites), hits)
			}
			blocks++
			if s == Unsure {
				unsure++
				if !some && !gap && !faults(g) {
					t.Fatalf("seed %d: block %d is unsure", seed, i)
				}
			}
		}
		if way.Broken > 0 {
			t.Fatalf("seed %d: broken", seed)
		}
		if !slices.Contains(way.Blocks, Unsure) {
			exact++
		}
	}
	t.Logf("%d blocks, %d unsure; %d of 20000 ways exact", blocks, unsure, exact)
	if exact < 12000 {
		t.Errorf("only %d ways are exact", exact)
	}
}

func faults(g *Graph) bool {
	return slices.ContainsFunc(g.Blocks, func(b Block) bool { return b.Fault != None })
}

// TestFollowBroken loses a hit. If that shows, no block that was entered is said not to be.
func TestFollowBroken(t *testing.T) {
	shown := 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := randomGraph(r, 2+r.IntN(24))
		sites := g.Sites(nil)
		entered, hits, returned := walk(r, g, sites, 200)
		if len(hits) == 0 || !returned {
			continue
		}
		lost := r.IntN(len(hits))
		way := g.Follow(sites, slices.Delete(hits, lost, lost+1), nil, false)
		if way.Broken == 0 {
			continue
		}
		shown++
		for i, s := range way.Blocks {
			if s == NotPassed && entered[i] {
				t.Fatalf("seed %d: block %d was entered", seed, i)
			}
		}
	}
	if shown < 1000 {
		t.Errorf("a lost hit shows in %d ways only", shown)
	}
}

// TestFollowHostile follows hits that no call can have made, of functions that cannot be.
func TestFollowHostile(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := &Function{Arch: []string{"amd64", "arm64"}[seed%2]}
		for range 1 + r.IntN(3) {
			p := Part{Addr: uint64(r.IntN(200)), Bytes: make([]byte, 1+r.IntN(100))}
			for i := range p.Bytes {
				p.Bytes[i] = byte(r.IntN(256))
				if r.IntN(3) == 0 {
					p.Bytes[i] = byte(0x70 + r.IntN(16)) // a conditional jump
				}
			}
			f.Parts = append(f.Parts, p)
		}
		for range r.IntN(4) {
			f.Faults = append(f.Faults, Fault{uint64(r.IntN(300)), uint64(r.IntN(300))})
		}
		g, err := NewGraph(f)
		if err != nil {
			t.Fatal(err)
		}
		sites := g.Sites(nil)
		hits := make([]Hit, r.IntN(50))
		for i := range hits {
			hits[i] = Hit{r.IntN(len(sites)+3) - 1, r.IntN(2) == 0}
		}
		g.Follow(sites, hits[:len(hits)/2], hits[len(hits)/2:], r.IntN(2) == 0)
	}
}
