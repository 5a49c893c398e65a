// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A recording knows what follows from the records of one probe.
type recording struct {
	probe      *plan.Probe
	view       *kernel.View
	arch       string
	sources    []source
	entry, ret bool // records of this half are sent
	entryTime  bool // the time of entry is known
	bothTimes  bool // and that of return
	inside     bool // the records are values of calls inside sessions
}

func newRecording(p *plan.Probe, view *kernel.View, arch string) *recording {
	r := &recording{probe: p, view: view, arch: arch, sources: sourcesOf(p), entry: sends(p.Entry), ret: sends(p.Return)}
	r.entryTime = r.entry || p.Timed
	r.bothTimes = r.entryTime && r.ret
	return r
}

func sends(h *layout.Half) bool { return h != nil && h.Record != nil }

// rewrite returns a term that a machine of the recording can compute, with the value that t
// has. ok is false if it does not follow from what was recorded.
func (r *recording) rewrite(t expr.Term) (out expr.Term, ok bool) {
	if k, constant := t.(*expr.Const); constant {
		return k, true
	}
	if i := scalarOf(r.sources, canon(t)); i >= 0 {
		return &expr.Kept{T: t.Type(), Slot: i}, true
	}
	switch t := t.(type) {
	case *expr.Arg:
		return t, passedIn(r.sources, t.Index, t.Off, t.Width) >= 0
	case *expr.Result:
		return t, passedIn(r.sources, resultArg, t.Off, t.Width) >= 0
	case *expr.ContextTerm:
		return t, r.knows(t.Var, t.At)
	case *expr.Passed:
		return r.rewrite(t.X)
	case *expr.Load:
		return r.rewriteLoad(t)
	case *expr.Match:
		text, ok := r.rewriteText(t.X, expr.MatchLimit(t))
		return &expr.Match{T: t.T, Op: t.Op, X: text, Pattern: t.Pattern}, ok
	case *expr.Kept:
		return t, false
	}
	out = expr.Clone(t)
	for _, x := range expr.Operands(out) {
		if *x, ok = r.rewrite(*x); !ok {
			return t, false
		}
	}
	return out, true
}

// knows reports whether the headers of the records have a context value.
func (r *recording) knows(v expr.ContextVar, at expr.Phase) bool {
	switch v {
	case expr.ContextPID, expr.ContextTID:
		return true
	}
	if r.inside { // the rest of the header is of the session, or of the entry
		return false
	}
	switch v {
	case expr.ContextDuration:
		return r.bothTimes
	case expr.ContextTime:
		return at == expr.AtReturn && r.ret || at == expr.AtEntry && r.entryTime
	case expr.ContextUID, expr.ContextCgroup:
		if r.probe.Owner&ownerPart(v) == 0 {
			return false
		}
		fallthrough
	case expr.ContextCPU, expr.ContextComm:
		return at == expr.AtReturn && r.ret || at == expr.AtEntry && r.entry
	}
	return false
}

// ownerPart returns the part of an owner that is a context value.
func ownerPart(v expr.ContextVar) layout.Owner {
	if v == expr.ContextUID {
		return layout.OwnerUID
	}
	return layout.OwnerCgroup
}

// A spot is a place in the memory of a source: off, and as many bytes further on as a rewritten
// term says, which may be nil.
type spot struct {
	in    int
	off   int64
	index expr.Term
}

// address returns the term that computes the offset of a spot.
func (s spot) address(t btf.Type) expr.Term {
	k := &expr.Const{T: t, V: uint64(s.off)}
	if s.index == nil {
		return k
	}
	return &expr.BinaryTerm{T: t, Op: expr.OpAdd, X: s.index, Y: k}
}

func (r *recording) rewriteLoad(t *expr.Load) (expr.Term, bool) {
	at, ok := r.locate(t.Addr, t.Off, t.Width, t.Space, t.At, inBytes)
	if !ok {
		return t, false
	}
	return &expr.Load{T: t.T, Addr: at.address(t.Addr.Type()), Width: t.Width, Bits: t.Bits, Space: expr.Space(at.in), At: asBytes}, true
}

// inBytes reports whether a source has all bytes of its region, whatever they are.
func inBytes(s *source) bool {
	if b, ok := s.term.(*expr.Buffer); ok {
		k, constant := b.N.(*expr.Const)
		return constant && k.V >= uint64(b.Max)
	}
	return !s.mem.text
}

// inTarget reports whether a source is more than a number.
func inTarget(s *source) bool { return !scalar(s.term) && !s.mem.text }

// locate returns where size bytes of memory are recorded. An index that is computed may lead
// out of what was recorded: that is only known for each call.
func (r *recording) locate(addr expr.Term, off int64, size uint32, space expr.Space, at expr.Phase, usable func(*source) bool) (best spot, ok bool) {
	parts, more := addends(addr)
	var found uint32
	for i := range r.sources {
		m := r.sources[i].mem
		if m == nil || m.space != space || m.at != at || m.size <= found || !usable(&r.sources[i]) {
			continue
		}
		rest, base := without(parts, m.base)
		if !base || len(rest) > 0 && len(m.base) == 0 {
			continue
		}
		s := spot{in: i, off: off + more - m.off}
		if len(rest) == 0 && (s.off < 0 || s.off+int64(size) > int64(m.size)) {
			continue
		}
		if len(rest) > 0 {
			all := true
			s.index = sum(addr.Type(), rest, func(t expr.Term) expr.Term {
				t, ok := r.rewrite(t)
				all = all && ok
				return t
			})
			if !all {
				continue
			}
		}
		best, found = s, m.size
	}
	return best, found > 0
}

// without returns the addends that are not those of a base. ok is false if not all of these are
// there.
func without(parts, base []expr.Term) (rest []expr.Term, ok bool) {
	rest = slices.Clone(parts)
	for _, b := range base {
		i := slices.IndexFunc(rest, func(t expr.Term) bool { return expr.Same(canon(t), b) })
		if i < 0 {
			return nil, false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return rest, true
}

// rewriteText rewrites a string of which up to limit bytes are read.
func (r *recording) rewriteText(t *expr.Text, limit uint32) (*expr.Text, bool) {
	out := *t
	if t.Addr == nil {
		return &out, r.knows(expr.ContextComm, t.At) || commOf(r.sources, t.At) >= 0
	}
	at, ok := r.locateText(t, limit)
	if !ok {
		return t, false
	}
	out.Addr, out.Off, out.Space, out.At = at.address(t.Addr.Type()), 0, expr.Space(at.in), asText
	return &out, true
}

// locateText returns where a string is recorded. Behind a pointer, what was recorded may end
// before the string does: that is only known for each call.
func (r *recording) locateText(t *expr.Text, limit uint32) (spot, bool) {
	if !t.Terminated() {
		return r.locate(t.Addr, t.Off, limit, t.Space, t.At, inBytes)
	}
	if at, ok := r.locate(t.Addr, t.Off, 1, t.Space, t.At, func(s *source) bool { return s.mem.text }); ok && at.off == 0 && at.index == nil {
		return at, true
	}
	return r.locate(t.Addr, t.Off, 1, t.Space, t.At, inTarget)
}
