// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/layout"
)

// TestDetachHurry: where somebody waits for the end and the kernel takes long to remove links, the
// rest of them is left to somebody else. Without a hurry, or with what is soon removed, it is not.
func TestDetachHurry(t *testing.T) {
	const long = 150 * time.Millisecond
	for _, c := range []struct {
		name        string
		method      layout.Method
		hurry       time.Duration // begins so long after detaching does; negative: never
		lasts       time.Duration // each link
		left        int           // links
		least, most time.Duration
	}{
		{"hurry", layout.MethodFentry, 0, long, 40 - 4, leaveTime, leaveTime + 2*long},
		{"one program for both ends", layout.MethodFsession, 0, long, 20 - 4, leaveTime, leaveTime + 2*long},
		{"later", layout.MethodFentry, 2 * time.Second, long, 40 - 14 - 4, 2*time.Second + leaveTime, 2*time.Second + leaveTime + 3*long},
		{"no hurry", layout.MethodFentry, -1, long, 0, 40 * long, 40 * long},
		{"fast", layout.MethodFentry, 0, time.Millisecond, 0, 40 * time.Millisecond, 40 * time.Millisecond},
		{"kprobes stay with whoever removes their events", layout.MethodKprobe, 0, long, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, left, hurry := newFake(t), 0, make(chan struct{})
			synctest.Test(t, func(t *testing.T) {
				leave := func(links []*os.File) error {
					if left != 0 {
						t.Error("it is asked again")
					}
					left, k.lasts = len(links), 0
					return nil
				}
				tracer, _, err := k.attach(20, bothEnds, c.method, func(o *Options) { o.Hurry, o.Leave = hurry, leave })
				if err != nil {
					t.Fatal(err)
				}
				k.lasts = c.lasts
				if c.hurry >= 0 {
					time.AfterFunc(c.hurry, func() { close(hurry) })
				}
				synctest.Wait()
				begin := time.Now()
				if err := tracer.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); left != c.left || took < c.least || took > c.most {
					t.Errorf("%d links are left to another after %v; want %d, and between %v and %v", left, took, c.left, c.least, c.most)
				}
			})
			if len(k.held) != 0 {
				t.Errorf("still open: %q", k.held)
			}
		})
	}
}

// TestDetachCounters: while probes are being taken off, and afterwards, nothing is said of what was counted, and nobody who asks
// for that waits.
func TestDetachCounters(t *testing.T) {
	k := newFake(t)
	synctest.Test(t, func(t *testing.T) {
		tracer, _, err := k.attach(20, bothEnds, layout.MethodFentry)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tracer.Counters(); err != nil {
			t.Error(err)
		}
		k.lasts = time.Second
		done := make(chan error, 1)
		go func() { done <- tracer.Detach() }()
		for range 2 {
			synctest.Wait()
			begin := time.Now()
			if _, err := tracer.Counters(); !errors.Is(err, errDetached) || time.Since(begin) != 0 {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
			time.Sleep(time.Hour)
		}
		if err := errors.Join(<-done, tracer.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaveReturns: links of kprobe.session and of returns by kprobe.multi, of which the kernel counts what it had
// no room for, are left to others as the rest is.
func TestLeaveReturns(t *testing.T) {
	k, left := newFake(t), 0
	link := fakeTrampoline{k.hold("kprobe.session of 1")}
	defer link.Close()
	tracer := &Tracer{options: Options{Leave: func(links []*os.File) error { left = len(links); return nil }}}
	if err := tracer.leave([]closer{awaiting{link}}); err != nil || left != 1 {
		t.Errorf("%d links are left, %v", left, err)
	}
}

// TestDetachHurryFails: who cannot leave links to another waits for the kernel, and says why.
func TestDetachHurryFails(t *testing.T) {
	k, hurry, no := newFake(t), make(chan struct{}), errors.New("no more processes")
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		tracer, _, err := k.attach(20, bothEnds, layout.MethodFentry, func(o *Options) {
			o.Hurry, o.Leave = hurry, func([]*os.File) error { asked++; return no }
		})
		if err != nil {
			t.Fatal(err)
		}
		k.lasts = 100 * time.Millisecond
		close(hurry)
		if err := tracer.Close(); !errors.Is(err, no) || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
	if len(k.held) != 0 {
		t.Errorf("still open: %q", k.held)
	}
}

// TestCloseTogether: links of uprobe.multi are closed at the same time, the others are left as they are.
func TestCloseTogether(t *testing.T) {
	all := make(chan struct{})
	var waiting atomic.Int32
	slow := func() error {
		if waiting.Add(1) == 3 {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-time.After(livetest.Patience(10 * time.Second)):
			return errors.New("the others are not being closed")
		}
	}
	user := func() closer { return userLink{lastingLink{loadedLink{closingLink{close: slow}}}} }
	other := lastingLink{}
	rest, err := closeTogether([]closer{user(), other, user(), user()})
	if err != nil || len(rest) != 1 || rest[0] != closer(other) {
		t.Errorf("%v, %v", rest, err)
	}
}

// A closingLink can only be closed.
type closingLink struct {
	link.Link
	close func() error
}

func (l closingLink) Close() error { return l.close() }
