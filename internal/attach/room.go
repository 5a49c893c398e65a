// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/layout"
)

// A room is what the engine is set up for that depends on the methods of probes: a trampoline shows
// the arguments at return, for which other methods keep them.
type room struct {
	stash   bpf.Stash
	record  uint32 // bytes of the largest
	overrun bool   // returns of fprobes are counted; see SessionOptions
}

// holds reports whether what needs other has enough of r.
func (r room) holds(other room) bool {
	return r.stash.Holds(other.stash) && r.record >= other.record && (r.overrun || !other.overrun)
}

// errNoRoom is why a probe cannot fall back on another method: the engine was loaded for less.
var errNoRoom = errors.New("the engine has no room for what another method keeps of calls")

// roomFor returns the room that the plan needs and, if the tracer is roomy, all that may be fallen back on.
func (t *Tracer) roomFor() (r room) {
	layouts := t.plan.Layouts()
	r.add(layouts, t.plan.Sessions)
	if !t.roomy {
		return r
	}
	for i, p := range t.plan.Probes {
		if !p.Method.Trampoline() {
			continue
		}
		other, err := p.With(layout.MethodKprobe) // of the layouts without a trampoline all are alike
		if err != nil {
			continue // it cannot fall back, and says so where it would have to
		}
		layouts[i] = &other.Probe
		r.overrun = r.overrun || t.plan.Sessions && p.Method == layout.MethodTracingMulti // see afterMany
	}
	r.add(layouts, t.plan.Sessions)
	return r
}

// add makes r large enough for probes.
func (r *room) add(probes []*layout.Probe, sessions bool) {
	r.stash = r.stash.Larger(codegen.StashFor(probes))
	for _, p := range probes {
		r.record = max(r.record, p.RecordSize())
		r.overrun = r.overrun || sessions && byFprobe(p.Method)
	}
}

// byFprobe reports whether the kernel sees calls for a method by fprobes, which miss some returns.
func byFprobe(m layout.Method) bool {
	return m == layout.MethodKprobeSession || m == layout.MethodKprobeMulti
}

// fits reports whether the engine has room for the plan as it has become.
func (t *Tracer) fits() bool {
	var need room
	need.add(t.plan.Layouts(), t.plan.Sessions)
	return t.room.holds(need)
}
