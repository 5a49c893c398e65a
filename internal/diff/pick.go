// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// A picked call has the thread that has made it.
type picked struct {
	thread *thread
	call   *Call
}

// pick returns the calls of functions that match a glob, in the order of time, but none of those that they call.
func (r *Run) pick(entry string) (all []picked) {
	var within func(t *thread, calls []*Call)
	within = func(t *thread, calls []*Call) {
		for _, c := range calls {
			if glob.Match(entry, c.Func) {
				all = append(all, picked{t, c})
			} else {
				within(t, c.Calls)
			}
		}
	}
	for _, t := range r.threads {
		within(t, t.Calls)
	}
	slices.SortStableFunc(all, func(a, b picked) int { return cmp.Compare(a.call.Time, b.call.Time) })
	return all
}

// Only returns a run with the calls of functions that match a glob, and what they call.
func (r *Run) Only(entry string) *Run {
	of := *r
	of.threads, of.Calls = nil, 0
	threads := map[*thread]*thread{}
	for _, p := range r.pick(entry) {
		t := threads[p.thread]
		if t == nil {
			t = &thread{Comm: p.thread.Comm, PID: p.thread.PID, TID: p.thread.TID}
			threads[p.thread] = t
			of.threads = append(of.threads, t)
		}
		t.Calls = append(t.Calls, p.call)
		of.Calls += p.call.size
	}
	return &of
}

// Nth returns a run with one call of a function that matches a glob: the Nth, counted from 1.
func (r *Run) Nth(entry string, n int) (*Run, error) {
	all := r.pick(entry)
	if n > len(all) {
		return nil, fmt.Errorf("%s has %s%s, and call %d is asked for", r.Name, plural.Of(len(all), "call{s}"), ofEntry(entry), n)
	}
	return r.one(all[n-1]), nil
}

// ofEntry names a glob, unless that is all functions.
func ofEntry(entry string) string {
	if entry == "*" {
		return ""
	}
	return " of " + entry
}

// one returns a run with one call.
func (r *Run) one(p picked) *Run {
	of := *r
	of.threads = []*thread{{Comm: p.thread.Comm, PID: p.thread.PID, TID: p.thread.TID, Calls: []*Call{p.call}}}
	of.Calls = p.call.size
	of.About = fmt.Sprintf("%s at %d.%09d", p.call.Func, p.call.Time/1e9, p.call.Time%1e9)
	return &of
}

// ErrAllFailed says that no call of the function of a call that failed has succeeded.
var ErrAllFailed = errors.New("that succeeded")

// Halves returns two runs with a call each of one function that matches a glob: the Nth that has failed and, of those
// that succeeded, the one before it that is nearest or, if there is none, the next.
func (r *Run) Halves(entry string, n int) (good, bad *Run, err error) {
	all := r.pick(entry)
	failed := 0
	for i, p := range all {
		if !p.call.Failed {
			continue
		}
		if failed++; failed != n {
			continue
		}
		at, ok := nearest(all, i)
		if !ok {
			return nil, nil, fmt.Errorf("%s has no call of %s %w", r.Name, p.call.Func, ErrAllFailed)
		}
		good, bad = r.one(all[at]), r.one(p)
		good.Name, bad.Name = "good", "bad"
		return good, bad, nil
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s has no calls%s", r.Name, ofEntry(entry))
	}
	calls := fmt.Sprintf("%s has %s%s", r.Name, plural.Of(len(all), "call{s}"), ofEntry(entry))
	if failed == 0 {
		return nil, nil, fmt.Errorf("%s, of which none failed: give another recording to compare with", calls)
	}
	return nil, nil, fmt.Errorf("%s, of which %d failed, and failure %d is asked for", calls, failed, n)
}

// nearest returns the call of the function of call i that succeeded.
func nearest(all []picked, i int) (at int, ok bool) {
	fits := func(p picked) bool { return p.call.Func == all[i].call.Func && p.call.Finished && !p.call.Failed }
	for at = i - 1; at >= 0; at-- {
		if fits(all[at]) {
			return at, true
		}
	}
	at = i + 1 + slices.IndexFunc(all[i+1:], fits)
	return at, at > i
}
