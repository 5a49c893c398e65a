// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
)

func TestChooseFirst(t *testing.T) {
	open := func(file string) Failure { return call("openat", unix.ENOENT, file) }
	for name, tt := range map[string]struct {
		calls   []Failure
		message string // behind all of them
		wish    Wish
		want    int
		err     error
	}{
		"the first that is not expected":     {calls: []Failure{open("/a"), call("mount", unix.EINVAL, ""), call("bind", unix.EPERM, "")}, want: 1},
		"the one that a text names":          {calls: []Failure{open("/a"), call("mount", unix.EINVAL, ""), call("bind", unix.EPERM, "")}, message: "bind: Operation not permitted", want: 2},
		"a text names one that is expected":  {calls: []Failure{open("/a"), open("/b")}, message: "/a: No such file or directory", want: 0},
		"an expected one that is asked for":  {calls: []Failure{call("mount", unix.EINVAL, ""), open("/a"), open("/b")}, wish: Wish{Errno: uint64(unix.ENOENT)}, want: 1},
		"the second one":                     {calls: []Failure{call("mount", unix.EINVAL, ""), open("/a"), open("/b")}, wish: Wish{Syscall: "openat", Nth: 2}, want: 2},
		"only such that programs expect":     {calls: []Failure{open("/a")}, err: errExpected},
		"another one is asked for":           {calls: []Failure{open("/a")}, wish: Wish{Syscall: "mount"}, err: errNoSuch},
		"nothing has failed":                 {err: ErrNone},
		"fewer have failed than asked for":   {calls: []Failure{open("/a")}, wish: Wish{Nth: 2}, err: errNoSuch},
		"with a text, the one asked for too": {calls: []Failure{open("/a"), open("/b")}, message: "/b: No such file or directory", wish: Wish{Syscall: "openat"}, want: 1},
	} {
		var messages []Message
		if tt.message != "" {
			messages = []Message{{Time: 1, PID: 1, Text: tt.message}}
		}
		got, reason, err := (&Seen{Calls: tt.calls, Messages: messages}).ChooseFirst(tt.wish)
		if got != tt.want || !errors.Is(err, tt.err) || (err == nil) != (reason != "") {
			t.Errorf("%s: %d, %q, %v", name, got, reason, err)
		}
	}
}

// TestAwaiting: the run goes on until a call fails that is waited for, and a little longer.
func TestAwaiting(t *testing.T) {
	expected, other := call("openat", unix.ENOENT, "/a"), call("mount", unix.EINVAL, "")
	text := &Message{PID: 1, Text: "No such file or directory"}
	for name, tt := range map[string]struct {
		wish    Wish
		calls   []Failure
		message *Message
		want    bool
	}{
		"nothing asked for":      {calls: []Failure{expected, other}, want: true},
		"expected":               {calls: []Failure{expected}},
		"expected, and named":    {calls: []Failure{expected}, message: text, want: true},
		"expected, asked for":    {wish: Wish{Syscall: "openat"}, calls: []Failure{expected}, want: true},
		"another asked for":      {wish: Wish{Syscall: "openat"}, calls: []Failure{other}},
		"the second":             {wish: Wish{Nth: 2}, calls: []Failure{expected, other}, want: true},
		"the second, after one":  {wish: Wish{Nth: 2}, calls: []Failure{other}},
		"the second, and a text": {wish: Wish{Nth: 2}, calls: []Failure{expected}, message: text},
		"no call, and a text":    {message: text},
	} {
		stopped := make(chan struct{})
		a := awaiting{process: &Process{Wish: tt.wish, stop: func() { close(stopped) }}}
		s := &Seen{}
		for _, f := range tt.calls {
			s.Calls = append(s.Calls, f)
			a.call(s)
		}
		if tt.message != nil {
			s.Messages = append(s.Messages, *tt.message)
			a.message(s)
		}
		if (a.timer != nil) != tt.want {
			t.Errorf("%s: enough: %t", name, !tt.want)
		}
		if tt.want {
			<-stopped
		}
	}
}

// TestForget: of a process that goes on failing only the latest is kept, and what is waited for.
func TestForget(t *testing.T) {
	s := &Seen{Calls: []Failure{call("mount", unix.EINVAL, "")}}
	a := awaiting{process: &Process{Wish: Wish{Syscall: "mount", Nth: 2}}}
	a.call(s)
	const more = 5000
	for i := range more {
		f := call("openat", unix.ENOENT, "")
		f.Time = uint64(i + 1)
		s.Calls = append(s.Calls, f)
		s.addMessage(Message{Time: f.Time, Text: "x\n"})
		a.call(s)
	}
	n := len(s.Calls)
	if n >= 2*mostSeen || len(s.Messages) >= 2*mostSeen+1 || n+s.earlier != more+1 || s.Calls[0].Name() != "mount" || s.Calls[n-1].Time != more || s.Messages[len(s.Messages)-1].Time != more {
		t.Errorf("%d calls, %d messages, %d earlier", n, len(s.Messages), s.earlier)
	}
	for i := 2; i < n; i++ {
		if s.Calls[i].Time != s.Calls[i-1].Time+1 {
			t.Fatalf("call %d is of %d, that before of %d", i, s.Calls[i].Time, s.Calls[i-1].Time)
		}
	}
	for range 100_000 { // a daemon that logs, and a progress bar
		s.addMessage(Message{PID: 1, Text: "well\n"})
		s.addMessage(Message{PID: 2, Text: "50 %\r"})
		s.addMessage(Message{PID: 2, Text: "51 %\r"})
	}
	s.addMessage(Message{PID: 3, Text: strings.Repeat("y", longestMessage)})
	s.addMessage(Message{PID: 3, Text: "z"})
	if n := len(s.Messages); n > 2*mostSeen || s.Messages[n-1].Text != "z" || !strings.HasPrefix(s.Messages[n-3].Text, "50 %\r51 %\r50 %\r") || len(s.Messages[n-3].Text) > longestMessage+4 {
		t.Errorf("%d messages, %.50q", n, s.Messages[n-3].Text)
	}
	wish := awaiting{process: &Process{Wish: Wish{Syscall: "mount", Nth: 100_000}}}
	for s := (&Seen{}); wish.fit < 50_000; wish.call(s) { // would take minutes, were all looked at each time
		s.Calls = append(s.Calls, call("mount", unix.EINVAL, ""))
	}
	if got := latest(make([]int, 2*mostSeen), mostSeen); len(got) != mostSeen || len(latest(got, mostSeen)) != mostSeen {
		t.Error(len(got))
	}
}

// TestProcessHasEnded: nothing is attached for a process that has ended.
func TestProcessHasEnded(t *testing.T) {
	ended := make(chan struct{})
	p := &Process{PID: 1, Ended: ended}
	if p.hasEnded() {
		t.Error("it has not ended")
	}
	close(ended)
	r := &Runner{Process: p} // without a kernel to attach to
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.runProcess(ctx, &plan.Plan{}, nil, trace.Settings{}, nil); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}
