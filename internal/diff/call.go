// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"hash/maphash"
)

// A Run is what one recording has: the calls of each thread.
type Run struct {
	Name    string
	Kernel  string    // its release; "": it is not known
	About   string    // which part of it this is; "": all
	threads []*thread // in the order of their first calls
	Calls   int
	// Sessions says that the calls at the top are those of entry functions. Traced says that all
	// calls in them are here, not those of one chain alone.
	Sessions, Traced bool
	// Holes is how many places there are at which calls are missing.
	Holes uint64
	// Incomplete says that the recording could not be read to its end.
	Incomplete bool
}

// A thread is one thread of a run.
type thread struct {
	Comm     string // when its first call was made
	PID, TID uint64
	Calls    []*Call // that no other call here has made
}

// A Call is a call of a traced function.
type Call struct {
	Func     string
	Time     uint64 // of its entry, in ns
	Result   string // "": it has none, or none is known
	Finished bool   // its return was seen
	Failed   bool
	Values   []Value // those known at entry first, without arguments
	Way      []Step  // that it took through its function, as far as that is known
	Calls    []*Call // that it made

	groups []*group // its arguments

	cut   bool   // the begin of Way is missing
	end   uint64 // of the time in which it made other calls
	name  int32  // stands for Func: the same in both runs
	own   uint64 // hash of the call alone
	whole uint64 // hash of all that is below it, too
	size  int    // calls, with itself
}

// values returns its arguments and values.
func (c *Call) values() []Value {
	if len(c.groups) == 0 {
		return c.Values
	}
	var all []Value
	for _, g := range c.groups {
		all = g.appendValues(all)
	}
	return append(all, c.Values...)
}

// A Step is a conditional jump that a call came by, or another branch.
type Step struct {
	Place string // where, and what was compared
	how   string // which values were compared, and where it led to
	to    string // where it led to, which is what is compared
}

// equal reports whether two steps lead from the same place to the same place.
func (s *Step) equal(o *Step) bool { return s.Place == o.Place && s.to == o.to }

// seal fills in the hashes of calls, once nothing about them changes any more.
func (n *Names) seal(calls []*Call) {
	for _, c := range calls {
		n.seal(c.Calls)
		c.name = n.number(c.Func)
		var h maphash.Hash
		h.SetSeed(n.seed)
		write := func(parts ...string) {
			for _, p := range parts {
				h.WriteString(p)
				h.WriteByte(0)
			}
		}
		write(c.Func, c.Result)
		for i := range c.Values {
			write(c.Values[i].Name, c.Values[i].Text)
		}
		for _, g := range c.groups {
			maphash.WriteComparable(&h, g.hash)
		}
		for i := range c.Way {
			write(c.Way[i].Place, c.Way[i].to)
		}
		if c.Finished {
			h.WriteByte(1)
		}
		c.own, c.size = h.Sum64(), 1
		for _, below := range c.Calls {
			maphash.WriteComparable(&h, below.whole)
			c.size += below.size
		}
		c.whole = h.Sum64()
	}
}

// Bounds of what is kept of a run.
const (
	maxMemory = 256 << 20 // bytes
	maxDepth  = 1024      // of calls within each other
)

// ErrFull says that a run has too many calls or values.
var ErrFull = fmt.Errorf("there is more than is compared at once, %d MiB: choose fewer calls, by -p, -n, --since or SPECs", maxMemory>>20)
