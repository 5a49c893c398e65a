// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// A Supervisor keeps requests running.
type Supervisor struct {
	options  Options
	times    times
	applying sync.Mutex // one set of requests at a time

	mu      sync.Mutex // not held while anything is waited for: Status answers at any time
	workers map[string]*worker
}

// New returns a Supervisor without requests.
func New(o Options) *Supervisor { return newSupervisor(o, times{}) }

func newSupervisor(o Options, t times) *Supervisor {
	t.first, t.most, t.steady = cmp.Or(t.first, usual.first), cmp.Or(t.most, usual.most), cmp.Or(t.steady, usual.steady)
	t.grace, t.last = cmp.Or(t.grace, usual.grace), cmp.Or(t.last, usual.last)
	return &Supervisor{options: o, times: t, workers: map[string]*worker{}}
}

// Changes are what Apply has done, by name.
type Changes struct{ Same, Changed, Added, Removed []string }

// Apply makes these requests the ones that run. Those that are the same go on. It waits until those that are not wanted any
// more have ended: a changed one may write to the same files.
func (s *Supervisor) Apply(requests []Request) (c Changes) {
	s.applying.Lock()
	defer s.applying.Unlock()
	wanted := map[string]Request{}
	for _, r := range requests {
		wanted[r.Name] = r
	}
	var ending []*worker
	for name, w := range s.workers {
		r, ok := wanted[name]
		switch {
		case !ok:
			c.Removed = append(c.Removed, name)
		case slices.Equal(r.Args, w.request.Args):
			c.Same = append(c.Same, name)
			continue
		default:
			c.Changed = append(c.Changed, name)
		}
		w.stop()
		ending = append(ending, w)
	}
	for _, w := range ending {
		<-w.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range c.Removed {
		delete(s.workers, name)
	}
	for _, r := range requests {
		old := s.workers[r.Name]
		if old != nil && slices.Contains(c.Same, r.Name) {
			continue
		}
		if old == nil {
			c.Added = append(c.Added, r.Name)
		}
		s.begin(r, old)
	}
	for _, names := range []*[]string{&c.Same, &c.Changed, &c.Added, &c.Removed} {
		slices.Sort(*names)
	}
	return c
}

// begin has a worker keep a request running. Its counts go on from those of an old one, since counters of metrics never
// fall.
func (s *Supervisor) begin(r Request, old *worker) {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{request: r, options: &s.options, times: &s.times, stop: stop, done: make(chan struct{}), counts: counts{lost: map[string]uint64{}}}
	if old != nil {
		w.counts = old.counts // it has ended
		w.lost = maps.Clone(old.lost)
	}
	s.workers[r.Name] = w
	go w.run(ctx)
}

// Close ends all requests.
func (s *Supervisor) Close() { s.Apply(nil) }

// Status returns what is known of all requests, by name.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	workers := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers {
		workers = append(workers, w)
	}
	s.mu.Unlock()
	all := make([]Status, 0, len(workers))
	for _, w := range workers {
		all = append(all, w.status())
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
