// SPDX-License-Identifier: Apache-2.0

package code

import "slices"

// A Hit is a probe that a call came by, by its index in the sites, and whether the jump there
// jumps.
type Hit struct {
	Site  int
	Taken bool
}

// A State says whether a call has entered a block.
type State uint8

const (
	NotPassed State = iota
	Passed
	Unsure // the probes do not tell
)

// A Way is which blocks a call has entered.
type Way struct {
	Blocks []State
	// Broken counts the places where the hits do not follow from each other: some are missing, or
	// the code is not what was read.
	Broken int
}

// Follow tells which blocks a call has entered that was seen at sites, in order, until it
// returned. Every block that it says to be passed was, and those that it says not to be were
// not; what follows from no hit is unsure. If gap is set, hits are missing between first and
// last.
func (g *Graph) Follow(sites []Site, first, last []Hit, gap bool) *Way {
	f := newFollower(g, sites)
	at := f.along(place{block: g.Entry}, first, false)
	if gap {
		f.blind = true
	}
	at = f.along(at, last, gap)
	if at.block == None || gap && len(last) == 0 {
		// It has left by a jump, or the end is not known.
	} else if !f.search(at, f.leaves) {
		f.lost()
	}
	for i, s := range f.way.Blocks {
		if s == NotPassed && f.blind {
			f.way.Blocks[i] = Unsure
		}
	}
	return f.way
}

// along follows hits from a place, of which nothing is known if adrift is set. It returns where
// they lead to.
func (f *follower) along(at place, hits []Hit, adrift bool) place {
	for _, h := range hits {
		if h.Site < 0 || h.Site >= len(f.sites) {
			f.lost()
			continue
		}
		s := &f.sites[h.Site]
		if adrift || !f.search(at, func(p place) bool { return f.site(p) == h.Site }) {
			if !adrift {
				f.lost()
			}
			f.way.Blocks[s.Block] = Passed
		}
		adrift = false
		at = place{s.Block, true}
		if !s.Start {
			b := &f.g.Blocks[s.Block]
			if at = (place{b.Next, false}); h.Taken {
				at.block = b.Taken
				f.blind = f.blind || b.Taken == None && b.Anywhere
			}
		}
	}
	return at
}

// A place is where a call is: about to enter a block, or within it, behind the site at its
// start.
type place struct {
	block  int
	within bool
}

// A follower follows one call.
type follower struct {
	g      *Graph
	sites  []Site
	start  []int // by block: the site at its start, or None
	branch []int // the site on its jump, or None
	way    *Way
	blind  bool // anything may have happened in between

	from map[int][]int // of a search: the blocks that led to each
}

func newFollower(g *Graph, sites []Site) *follower {
	f := &follower{g: g, sites: sites, way: &Way{Blocks: make([]State, len(g.Blocks))}}
	f.start, f.branch = slices.Repeat([]int{None}, len(g.Blocks)), slices.Repeat([]int{None}, len(g.Blocks))
	for i := range sites {
		if sites[i].Start {
			f.start[sites[i].Block] = i
		} else {
			f.branch[sites[i].Block] = i
		}
	}
	return f
}

// site returns the site that is hit next from a place, if it is in the same block; else None.
func (f *follower) site(p place) int {
	if s := f.start[p.block]; s != None && !p.within {
		return s
	}
	return f.branch[p.block]
}

// leaves reports whether the call can end in the block of a place without a hit.
func (f *follower) leaves(p place) bool {
	return f.g.Blocks[p.block].leaves && f.site(p) == None
}

func (f *follower) lost() {
	f.way.Broken++
	f.blind = true
}

// mostSearched is how many blocks can lie between two hits for each to be tried: the time
// grows with the square, and a recording says which sites there are. Of more, none is sure.
const mostSearched = 128

// search finds the ways without a hit from a place to where goal holds. What is on all of them
// was passed, what is on some may have been. It returns false if there is none.
func (f *follower) search(at place, goal func(place) bool) bool {
	if at.block == None {
		return false // the function was left
	}
	reached, goals := f.spread(at, goal, None)
	anywhere := slices.ContainsFunc(reached, func(n int) bool {
		return f.g.Blocks[n].Anywhere && f.site(place{n, at.within && n == at.block}) == None
	})
	if anywhere {
		f.blind = true
	}
	if len(goals) == 0 {
		if anywhere {
			f.mark(at.block, Passed)
		}
		return anywhere
	}
	between := f.backward(goals)
	for n := range between {
		if n != at.block && (anywhere || len(between) > mostSearched || f.avoidable(at, goal, n)) {
			f.mark(n, Unsure)
		} else {
			f.mark(n, Passed)
		}
	}
	return true
}

func (f *follower) mark(block int, s State) {
	if f.way.Blocks[block] != Passed {
		f.way.Blocks[block] = s
	}
}

// avoidable reports whether a goal can be reached without a block.
func (f *follower) avoidable(at place, goal func(place) bool, without int) bool {
	_, goals := f.spread(at, goal, without)
	return len(goals) > 0
}

// spread returns the blocks that can be reached from a place without a hit, and those among
// them where goal holds. It leaves in f.from how they are reached.
func (f *follower) spread(at place, goal func(place) bool, without int) (reached, goals []int) {
	f.from = map[int][]int{}
	todo := []place{at}
	seen, listed := map[place]bool{at: true}, map[int]bool{}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if !listed[p.block] {
			listed[p.block] = true
			reached = append(reached, p.block)
		}
		if goal(p) && !slices.Contains(goals, p.block) {
			goals = append(goals, p.block)
		}
		if f.site(p) != None {
			continue
		}
		for n := range f.g.follows(p.block) {
			if n == without {
				continue
			}
			f.from[n] = append(f.from[n], p.block)
			if next := (place{block: n}); !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return reached, goals
}

// backward yields the blocks that lead to goals, these included.
func (f *follower) backward(goals []int) map[int]bool {
	on := map[int]bool{}
	todo := slices.Clone(goals)
	from := f.from
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if on[n] {
			continue
		}
		on[n] = true
		todo = append(todo, from[n]...)
	}
	return on
}
