// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// A fakeProcess ends when it is told to, after as many requests to stop as it wants.
type fakeProcess struct {
	request Request
	reports chan Report
	deaf    int // how many times Stop is not heard; 2: only Kill is
	mu      sync.Mutex
	stops   int
	err     error
	once    sync.Once
}

func (p *fakeProcess) Reports() <-chan Report { return p.reports }
func (p *fakeProcess) Err() error             { return p.err }
func (p *fakeProcess) Kill()                  { p.end(errors.New("killed")) }
func (p *fakeProcess) end(err error) {
	p.once.Do(func() { p.err = err; close(p.reports) })
}
func (p *fakeProcess) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops++; p.stops > p.deaf {
		p.end(nil)
	}
}

// A stage starts fake processes.
type stage struct {
	*Supervisor
	t       *testing.T
	started chan *fakeProcess
	mu      sync.Mutex
	said    []string
	refuse  error
	deaf    int
}

func newStage(t *testing.T, waits times) *stage {
	s := &stage{t: t, started: make(chan *fakeProcess, 100)}
	s.Supervisor = newSupervisor(Options{Start: func(r Request) (Process, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse != nil {
			return nil, s.refuse
		}
		p := &fakeProcess{request: r, reports: make(chan Report), deaf: s.deaf}
		s.started <- p
		return p, nil
	}, Say: func(request, text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, request+" "+text)
	}}, waits)
	t.Cleanup(s.Close)
	return s
}

func (s *stage) next() *fakeProcess {
	s.t.Helper()
	select {
	case p := <-s.started:
		return p
	case <-time.After(livetest.Patience(10 * time.Second)):
		s.t.Fatal("nothing is started")
		return nil
	}
}

// until waits for the only request to be in a state.
func (s *stage) until(state State) Status {
	s.t.Helper()
	for begin := time.Now(); time.Since(begin) < livetest.Patience(10*time.Second); time.Sleep(time.Millisecond) {
		if all := s.Status(); len(all) == 1 && all[0].State == state {
			return all[0]
		}
	}
	s.t.Fatalf("no request is %s: %+v", state, s.Status())
	return Status{}
}

func requests(texts ...string) (all []Request) {
	for _, text := range texts {
		name, arg, _ := strings.Cut(text, "=")
		all = append(all, Request{name, []string{arg}})
	}
	return all
}

// TestApply: what is the same goes on in the same process, and what is not has ended before it is begun again.
func TestApply(t *testing.T) {
	s := newStage(t, times{})
	s.Apply(requests("a=1", "b=1", "c=1"))
	was := map[string]*fakeProcess{}
	for range 3 {
		p := s.next()
		was[p.request.Name] = p
	}
	got := s.Apply(requests("d=1", "b=2", "a=1"))
	if diff := cmp.Diff(Changes{Same: []string{"a"}, Changed: []string{"b"}, Added: []string{"d"}, Removed: []string{"c"}}, got); diff != "" {
		t.Error(diff)
	}
	began := map[string]string{}
	for range 2 {
		p := s.next()
		began[p.request.Name] = p.request.Args[0]
	}
	if diff := cmp.Diff(map[string]string{"b": "2", "d": "1"}, began); diff != "" {
		t.Error(diff)
	}
	if was["a"].stops != 0 || was["b"].stops != 1 || was["c"].stops != 1 {
		t.Errorf("stopped: a %d, b %d, c %d times", was["a"].stops, was["b"].stops, was["c"].stops)
	}
	if len(s.started) > 0 {
		t.Error("more is started")
	}
}

// TestAgain: a request that has failed is begun again, after a longer time each time; another one does not notice. Its counts go on.
func TestAgain(t *testing.T) {
	s := newStage(t, times{first: 20 * time.Millisecond, most: 80 * time.Millisecond})
	s.Apply(requests("a=1"))
	var waits []time.Duration
	for range 5 {
		p := s.next()
		p.reports <- Report{Attached: true, Records: 10, Lost: map[string]uint64{"x": 1}}
		p.reports <- Report{Attached: true, Records: 11, Lost: map[string]uint64{"x": 2}}
		begin := time.Now()
		p.end(errors.New("gone"))
		s.started <- s.next()
		waits = append(waits, time.Since(begin))
	}
	for i, least := range []time.Duration{20, 40, 80, 80, 80} {
		if waits[i] < least*time.Millisecond {
			t.Errorf("begun again after %v, want %d ms or more", waits[i], least)
		}
	}
	s.next().reports <- Report{Attached: true, Records: 1}
	got := s.until(Running)
	if diff := cmp.Diff(Status{Name: "a", State: Running, Records: 56, Lost: map[string]uint64{"x": 10}, Failures: 5, Restarts: 5}, got); diff != "" {
		t.Error(diff)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := "a failed: gone; it is begun again in 20ms"; len(s.said) != 5 || s.said[0] != want {
		t.Errorf("said %q, want %q first", s.said, want)
	}
}

// TestSaidOnce: the reason that a process has told is not told again, but it is in the status.
func TestSaidOnce(t *testing.T) {
	s := newStage(t, times{first: time.Minute})
	s.Apply(requests("a=x"))
	s.next().end(&saidError{"no such function", errors.New("exit status 2")})
	if got := s.until(Failed).Reason; got != "no such function (exit status 2)" {
		t.Errorf("the reason is %q", got)
	}
	for begin := time.Now(); time.Since(begin) < livetest.Patience(10*time.Second); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		said := slices.Clone(s.said)
		s.mu.Unlock()
		if len(said) == 0 {
			continue // the state comes first
		}
		if want := "a failed: exit status 2; it is begun again in 1m0s"; said[0] != want {
			t.Errorf("said %q, want %q", said, want)
		}
		return
	}
	t.Error("nothing was said")
}

// TestSteady: after a long time without a failure, the next one is the first.
func TestSteady(t *testing.T) {
	s := newStage(t, times{first: time.Millisecond, most: time.Hour, steady: time.Nanosecond})
	s.Apply(requests("a=1"))
	for range 20 { // doubled each time that would be 17 minutes
		s.next().end(errors.New("gone"))
	}
}

// TestStartFails: what cannot be started has failed, too, and can be stopped while it waits.
func TestStartFails(t *testing.T) {
	s := newStage(t, times{first: time.Hour})
	s.refuse = errors.New("no memory")
	s.Apply(requests("a=1"))
	if got := s.until(Failed); got.Reason != "no memory" || got.Failures != 1 || got.Restarts != 0 {
		t.Errorf("%+v", got)
	}
	s.Apply(nil)
	if len(s.Status()) != 0 {
		t.Error("it is still there")
	}
}

// TestEnded: what had nothing more to do is not begun again, unless it changes.
func TestEnded(t *testing.T) {
	s := newStage(t, times{first: time.Millisecond})
	s.Apply(requests("a=1"))
	p := s.next()
	p.reports <- Report{Attached: true, Records: 3}
	p.end(nil)
	if got := s.until(Ended); got.Records != 3 || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
	s.Apply(requests("a=1"))
	time.Sleep(10 * time.Millisecond)
	if len(s.started) > 0 {
		t.Error("it is begun again")
	}
	s.Apply(requests("a=2"))
	s.next().reports <- Report{Attached: true, Records: 1}
	if got := s.until(Running); got.Records != 4 {
		t.Errorf("%+v: counters of metrics do not fall", got)
	}
}

// TestDeaf: what does not end is asked again, and then killed.
func TestDeaf(t *testing.T) {
	for deaf, want := range []int{1, 2, 2} {
		s := newStage(t, times{grace: 10 * time.Millisecond, last: 10 * time.Millisecond})
		s.deaf = deaf
		s.Apply(requests("a=1", "b=1"))
		for _, p := range []*fakeProcess{s.next(), s.next()} {
			defer func() {
				if p.stops != want || (p.err != nil) != (deaf == 2) {
					t.Errorf("deaf %d times: asked %d times, want %d; %v", deaf, p.stops, want, p.err)
				}
			}()
		}
		s.Close()
	}
}

// TestOthersGoOn: the failures of one request are nothing to another.
func TestOthersGoOn(t *testing.T) {
	s := newStage(t, times{first: time.Millisecond, most: time.Millisecond})
	s.Apply(requests("good=1", "bad=1"))
	var good *fakeProcess
	for range 51 {
		p := s.next()
		if p.request.Name == "good" {
			if good != nil {
				t.Fatal("the good one is begun again")
			}
			good = p
			continue
		}
		p.end(fmt.Errorf("gone"))
	}
	if good.stops != 0 {
		t.Error("the good one is stopped")
	}
}
