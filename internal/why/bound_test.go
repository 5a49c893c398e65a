// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// addAll adds calls of a command as they are seen: with the number of each for its time.
func addAll(w *watcher, n int, of func(i int) Failure) {
	for i := range n {
		f := of(i)
		f.Time = uint64(i)
		w.addCall(f, &event.Event{})
	}
}

// TestManyFailures: of very many calls a part is kept, with the one that matters. Which of its kind a call was is known still.
func TestManyFailures(t *testing.T) {
	const n = 6 * mostLast
	w := watcher{runner: &Runner{}, seen: &Seen{Status: 1}}
	addAll(&w, n, func(i int) Failure {
		switch {
		case i == 100 || i == 20_000:
			return call("mount", unix.EINVAL, "")
		case i%3 == 0:
			return call("access", unix.ENOENT, "")
		}
		return call("openat", unix.ENOENT, "")
	})
	s := w.seen
	if len(s.Calls) > mostLast+2*mostOlder || len(s.Calls)+s.earlier != n {
		t.Fatalf("%d are kept, and %d not", len(s.Calls), s.earlier)
	}
	i, _, err := s.Choose(Wish{})
	if err != nil || s.Calls[i].Time != 20_000 || s.ordinal(i) != 1 {
		t.Errorf("%v, call %d of time %d, the %dth of its kind", err, i, s.Calls[i].Time, s.ordinal(i))
	}
	last := len(s.Calls) - 1 // n-1 is no multiple of 3
	want := 0
	for i := range n - 1 {
		if i%3 != 0 && i != 100 && i != 20_000 {
			want++
		}
	}
	if got := s.ordinal(last); got != want || s.Calls[last].Name() != "openat" {
		t.Errorf("the last one is the %dth of its kind, want %d", got, want)
	}
	p := NewPage([]string{"tool"}, s)
	if p.Choose(s, i, "x"); len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "are only counted") {
		t.Errorf("%q", p.Notes)
	}
}

// TestManyUnexpected: any call of a command may be one that programs do not expect to fail.
func TestManyUnexpected(t *testing.T) {
	const n = 4 * mostLast
	w := watcher{runner: &Runner{}, seen: &Seen{Status: 1}}
	addAll(&w, n, func(int) Failure { return call("write", unix.EPIPE, "") })
	s := w.seen
	if i, _, err := s.Choose(Wish{}); err != nil || s.Calls[i].Time != n-1 || s.ordinal(i) != n-1 || len(s.Calls) > mostLast+2*mostOlder {
		t.Errorf("%d are kept; %v, call %d of its kind", len(s.Calls), err, s.ordinal(i))
	}
}

// TestManyAskedFor: a call that is asked for by its number is kept, wherever it was.
func TestManyAskedFor(t *testing.T) {
	const n = 5 * mostLast
	for _, nth := range []int{2, 2*mostLast + 1, n / 2} {
		wish := Wish{Errno: uint64(unix.ENOENT), Nth: nth}
		w := watcher{runner: &Runner{Wish: wish}, seen: &Seen{Status: 1}}
		addAll(&w, n, func(i int) Failure { return call("openat", []unix.Errno{unix.EACCES, unix.ENOENT}[i%2], "") })
		s := w.seen
		i, _, err := s.Choose(wish)
		if want := 2*nth - 1; err != nil || s.Calls[i].Time != uint64(want) || s.ordinal(i) != nth-1 || len(s.Calls) > mostLast+2*mostOlder+1 {
			t.Errorf("--nth %d: %v, of time %d, the %dth of its kind; want %d", nth, err, s.Calls[i].Time, s.ordinal(i), want)
		}
		wish.Nth = n
		if nth == n/2 {
			if _, _, err := s.Choose(wish); err == nil || !strings.HasSuffix(err.Error(), "there are 125000") {
				t.Error(err)
			}
		}
	}
}

// TestManyStacks: stacks of a process take no more memory than those of a command.
func TestManyStacks(t *testing.T) {
	w := watcher{seen: &Seen{}, awaiting: &awaiting{process: &Process{Wish: Wish{Nth: 1 << 20}}}}
	const size = 1 << 20
	for range 3 * mostStacks / size {
		w.seen.Calls = append(w.seen.Calls, Failure{})
		w.keepStack(&userStack{section: bpf.Section{Data: make([]byte, size)}})
	}
	if w.stacks > mostStacks {
		t.Errorf("%d bytes", w.stacks)
	}
	w.seen.Calls = w.seen.Calls[len(w.seen.Calls)-3:]
	if w.countStacks(); w.stacks < 3*size || w.stacks > 4*size || w.oldest != 0 {
		t.Errorf("%d bytes of 3 stacks", w.stacks)
	}
}
