// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// TestInterrupted: after an interrupt no other run begins, nor is anything looked up for it.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &Runner{Command: []string{"/does/not/exist"}} // without a kernel to look into
	if _, err := r.run(ctx, true, trace.Request{}, trace.Settings{}, nil); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	if p, err := (&narrowing{runner: r}).find(ctx); p != nil || !errors.Is(err, ErrInterrupted) {
		t.Error(p, err)
	}
}

// TestSlow: what takes long is said before the first run, and before each run that looks into a function.
func TestSlow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said []string
	r := &Runner{Slow: func(what string) func() {
		said = append(said, what)
		return func() { said = append(said, "done") }
	}}
	for _, quiet := range []bool{false, true} {
		if _, err := r.run(ctx, quiet, trace.Request{}, trace.Settings{}, nil); !errors.Is(err, ErrInterrupted) {
			t.Error(err)
		}
	}
	r.looking(1, nil)()
	r.looking(2, &Place{Chain: []Link{{Function: kernel.Function{Name: "path_openat"}}}})()
	if want := []string{"attaching, to see which system calls of the command fail...", "done", "run 3: looking into path_openat...", "done"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

// TestListened: a run has listened once its records are read, be there any or not.
func TestListened(t *testing.T) {
	w := watcher{seen: &Seen{}}
	if err := w.take(&plan.Plan{}, func(func([]byte, error) bool) {}); err != nil || !w.seen.Listened {
		t.Error(w.seen.Listened, err)
	}
}

// TestTooMuch: why has no option for what tracing may take, and names what helps in its place.
func TestTooMuch(t *testing.T) {
	var said bytes.Buffer
	r := &Runner{Log: slog.New(slog.NewTextHandler(&said, nil))}
	r.sayPaused(0.6, 0.4)
	r.Lost.Lost[bpf.PausedTime] = 4711
	texts := []string{said.String(), errTooMuch.Error()}
	for _, l := range r.Missing() {
		if l.Count != 4711 || !strings.HasPrefix(l.Text, "4711 milliseconds in which") {
			t.Error(l)
		}
		texts = append(texts, l.What)
	}
	for _, text := range texts {
		if strings.Contains(text, "--max-cpu") || !strings.Contains(text, "with less else running") || strings.Contains(text, "%!") {
			t.Error(text)
		}
	}
	if len(texts) != 3 {
		t.Errorf("%q", texts)
	}
}

// TestCallsMissing: what stacks lack says nothing of calls.
func TestCallsMissing(t *testing.T) {
	for cause, want := range map[bpf.Counter]bool{bpf.LostRingbuf: true, bpf.Missed: true, bpf.LostFamily: true, bpf.SwitchedOff: true, bpf.ShortStack: false, bpf.UnseenCode: false, bpf.LeftFine: false} {
		r := &Runner{}
		r.Lost.Lost[cause] = 1
		if got := r.callsMissing(); got != want {
			t.Errorf("cause %d: %v", cause, got)
		}
	}
}
