// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// passedOn are errors that come from functions which nobody looks at: that allocate, wait, or copy
// from user space.
var passedOn = []unix.Errno{unix.ENOMEM, unix.EINTR, unix.EFAULT, unix.EAGAIN}

// PassedOn reports whether an error comes from such functions: of those that nobody has seen, nothing
// can be deduced.
func PassedOn(failed unix.Errno) bool { return slices.Contains(passedOn, failed) }

// Deduce returns what decided that a call failed which nobody has seen, from the code of its
// function, its arguments, what the functions that it called have returned as far as that was seen,
// and the error. It returns ok if all ways that end with that error are
// decided by the same jump. A way that ends with the result of a known function is left out: the
// caller has seen that no such function failed.
func Deduce(p *plan.Probe, given []code.Given, called []code.Called, failed unix.Errno) (v Verdict, d event.Decision, ok bool) {
	way := p.Way
	v.Decision, v.Error = -1, -int32(failed)
	if PassedOn(failed) {
		return v, d, false
	}
	ways, ok := way.Code.Possible(way.Graph(), way.Sites(), given, called, way.Callees)
	if !ok {
		return v, d, false
	}
	found := false
	for i := range ways {
		w := &ways[i]
		walk := way.Code.Walk(way.Graph(), way.Sites(), w.Hits, way.Callees, false)
		r := walk.Returned
		switch {
		case w.Ended && int32(w.Result) != v.Error, r != nil && r.Kind == code.Constant && int32(r.N) != v.Error:
			continue
		case r != nil && r.Kind == code.Result && r.Target != 0 && way.Callees.At(r.Target) != nil:
			continue
		case w.Beyond, r == nil || r.Kind != code.Constant || walk.Unsure || walk.Deciding == code.None:
			return v, d, false
		}
		hit := w.Hits[walk.Deciding]
		decision := event.Decision{Site: &way.Sites()[hit.Site], Taken: hit.Taken}
		for j := range decision.Site.Operands {
			decision.Values[j] = decision.Site.Operands[j].Part(w.Values[walk.Deciding][j])
			decision.Unreadable[j] = !w.Known[walk.Deciding][j]
		}
		if found && (decision.Site != d.Site || decision.Taken != d.Taken) {
			return v, d, false
		}
		d, found = decision, true
		v.condition(p, &d, walk, walk.Deciding)
	}
	return v, d, found
}
