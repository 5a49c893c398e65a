// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"iter"

	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A Node is a recorded call of a session.
type Node struct {
	Func     *plan.Probe
	Parent   int    // index of the call that made it; -1 if that is unknown or there is none
	Entry    uint64 // CLOCK_MONOTONIC ns
	Duration uint64 // ns; up to the report if the call has not returned
	OffCPU   uint64 // ns of Duration, if Session.HasOffCPU
	Result   uint64
	Finished bool // it has returned
	Failed   bool
	Entered  session.Values // known at entry
	Returned session.Values // known at return
	// Frames has the functions from its caller on, outermost first; the last is Func.
	Frames []symbols.Frame

	inside uint64 // ns in calls that it made
	offIn  uint64 // of them off the CPU
	blamed bool   // one of them failed
	height int    // frames of its whole stack
}

// Self returns the ns in the function itself, without the recorded calls that it made.
func (n *Node) Self() uint64 { return n.Duration - min(n.inside, n.Duration) }

// SelfOffCPU returns the ns of Self in which the thread was off the CPU.
func (n *Node) SelfOffCPU() uint64 { return min(n.OffCPU-min(n.offIn, n.OffCPU), n.Self()) }

// tallest is the most frames of a stack. The kernel's stacks are lower; those that a damaged
// recording makes up need not be.
const tallest = 1 << 10

// Session yields the samples of a session, callers before what they call. A session that is
// still open has none: it will be reported again.
func (s *Sampler) Session(x *session.Session) iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {
		if x.State == session.Missing || x.State == session.Running || x.State == session.Hung {
			return
		}
		nodes := s.Nodes(x)
		for i := range nodes {
			n := &nodes[i]
			s.sample = Sample{Stack: AppendStack(s.sample.Stack[:0], nodes, i), Calls: 1, Time: n.Self(), OffCPU: n.SelfOffCPU(), PID: x.PID, Comm: x.Comm}
			if n.Failed {
				s.sample.Errno = Errno(n.Func.Class, n.Result)
				if !n.blamed {
					s.sample.Errors = 1
				}
			}
			if !yield(&s.sample) {
				return
			}
		}
	}
}

// SessionErrno returns the name of the error that a session failed with, as Errno does; "" if it
// did not fail.
func SessionErrno(x *session.Session) string {
	f := x.Chain.Failure()
	if !x.Failed || f == nil {
		return ""
	}
	return Errno(f.Func.Class, f.Result)
}

// Nodes returns the recorded calls of a session, callers before what they call: those of its
// chains and of its trace, each once.
func (s *Sampler) Nodes(x *session.Session) []Node {
	t := tree{sampler: s, seen: map[seenCall]int{}}
	t.chain(&x.Chain)
	for i := range x.Interim {
		t.chain(&x.Interim[i])
	}
	t.trace(x.Calls())
	if len(t.nodes) == 0 {
		t.add(Node{Func: x.Func, Parent: -1, Entry: x.Start, Duration: x.End - min(x.Start, x.End), OffCPU: x.OffCPU, Failed: x.Failed})
	}
	return t.nodes
}

// Innermost returns the last call of the chain that the first node begins.
func Innermost(nodes []Node) (last int) {
	for i := range nodes {
		if nodes[i].Parent == last {
			last = i
		}
	}
	return last
}

// AppendStack appends the whole stack of a node, outermost first.
func AppendStack(dst []symbols.Frame, nodes []Node, i int) []symbols.Frame {
	if p := nodes[i].Parent; p >= 0 {
		dst = AppendStack(dst, nodes, p)
	}
	return append(dst, nodes[i].Frames...)
}

// A tree collects the calls of a session. A call may be in several chains and in the trace.
type tree struct {
	sampler *Sampler
	nodes   []Node
	seen    map[seenCall]int
}

// A seenCall identifies a call of a session: one thread makes them.
type seenCall struct {
	fn    *plan.Probe
	entry uint64
}

// add adds a call unless it is known, and returns its index.
func (t *tree) add(n Node) int {
	key := seenCall{n.Func, n.Entry}
	if i, ok := t.seen[key]; ok {
		return i
	}
	n.OffCPU = min(n.OffCPU, n.Duration)
	if n.Frames == nil {
		n.Frames = []symbols.Frame{t.sampler.frame(n.Func)}
	}
	n.height = len(n.Frames)
	if n.Parent >= 0 {
		n.height += t.nodes[n.Parent].height
	}
	if n.height > tallest {
		n.Parent, n.height = -1, len(n.Frames)
	}
	i := len(t.nodes)
	t.seen[key] = i
	t.nodes = append(t.nodes, n)
	if n.Parent >= 0 {
		p := &t.nodes[n.Parent]
		p.inside += n.Duration
		p.offIn += n.OffCPU
		p.blamed = p.blamed || n.Failed
	}
	return i
}

// chain adds the calls of a chain, each with the kernel's functions that led from its
// caller to it.
func (t *tree) chain(c *session.Chain) {
	parent := -1
	var between []symbols.Frame
	for _, row := range t.sampler.merger.Merge(c) {
		if row.Symbol != nil {
			between = append(between, *row.Symbol)
		}
		if row.Call == nil {
			continue
		}
		if row.Symbol == nil {
			between = append(between, t.sampler.frame(row.Call.Func))
		}
		f := row.Call
		parent = t.add(Node{Func: f.Func, Parent: parent, Entry: f.Entry, Duration: f.Duration, OffCPU: f.OffCPU, Result: f.Result,
			Finished: f.Finished, Failed: f.Finished && f.Failed, Entered: f.Values, Frames: between})
		between = nil
	}
}

// trace adds the calls of a trace.
func (t *tree) trace(calls []session.Call) {
	index := make([]int, len(calls)) // of each call's node
	for i := range calls {
		c := &calls[i]
		n := Node{Func: c.Func, Parent: -1, Entry: c.Entry, Duration: c.Duration, OffCPU: c.OffCPU, Result: c.Result, Finished: c.Finished, Failed: c.Failed,
			Entered: c.Entered, Returned: c.Returned}
		if c.Parent >= 0 {
			n.Parent = index[c.Parent]
		}
		index[i] = t.add(n)
	}
}
