// SPDX-License-Identifier: Apache-2.0

package event

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/code"
)

// A Path is the way that a call took through its function.
type Path struct {
	Way *code.Way // which blocks it has entered; nil if nothing is known
	// Decisions are the conditional jumps that it came by, in order.
	Decisions []Decision
	// Missing is how many steps were not kept, behind the first Gap of Decisions.
	Gap, Missing int
	// Hits are all steps, of which those on jumps are Decisions.
	Hits []code.Hit
	// Errno says why nothing is known.
	Errno uint32
}

// A Decision is which way a conditional jump went.
type Decision struct {
	Site       *code.Site
	Hit        int // its index in Path.Hits
	Taken      bool
	Values     [2]uint64 // of the site's operands, as far as they reach
	Unreadable [2]bool
}

// Path returns the way that the call took; ok is false if it was not asked for.
func (e *Event) Path() (p Path, ok bool) {
	s, ok := e.Tail.Section(bpf.SectionPath)
	if !ok || e.Probe.Way == nil {
		return p, false
	}
	if p.Errno = s.Errno; p.Errno != 0 {
		return p, true
	}
	steps, gap, missing := bpf.AppendPath(nil, s)
	way := e.Probe.Way
	sites := way.Sites()
	hits := make([]code.Hit, 0, len(steps))
	for i := range steps {
		step := &steps[i]
		if i == gap {
			p.Gap, p.Missing = len(p.Decisions), missing
		}
		hit := code.Hit{Site: step.Site}
		if step.Site < len(sites) && step.Site >= 0 && !sites[step.Site].Start {
			site := &sites[step.Site]
			hit.Taken = site.Test.Taken(step.Word)
			p.Decisions = append(p.Decisions, newDecision(site, hit.Taken, step, i))
		}
		hits = append(hits, hit)
	}
	if missing == 0 {
		gap = len(hits)
	}
	p.Hits = hits
	p.Way = way.Graph().Follow(sites, hits[:gap], hits[gap:], missing > 0)
	return p, true
}

func newDecision(site *code.Site, taken bool, step *bpf.PathStep, hit int) Decision {
	d := Decision{Site: site, Hit: hit, Taken: taken, Unreadable: step.Unreadable}
	for i := range min(len(site.Operands), len(d.Values)) {
		d.Values[i] = site.Operands[i].Part(step.Value[i])
	}
	return d
}
