// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/session"
)

// TestIDs: what a task is called is printed first as users of ksnoop's PID namespace
// know it, and in another one where that differs.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		name          string
		pid, tid      uint32
		inner         bpf.Inner
		call, session string
	}{
		{"one namespace", 345, 346, bpf.Inner{}, "ping     345    1 ", " TID/PID 346/345 (ping)"},
		{"in a container, traced from the host", 345, 346, bpf.Inner{PID: 7, TID: 8}, "ping 345 (own 7)    1 ", " TID/PID 346/345 (own 8/7) (ping)"},
		{"traced from there", 345, 346, bpf.Inner{PID: 7, TID: 8, Ours: true}, "ping 7 (host 345)    1 ", " TID/PID 8/7 (host 346/345) (ping)"},
		{"outside, traced from there", 345, 346, bpf.Inner{Ours: true}, "ping 0 (host 345)    1 ", " TID/PID 0/0 (host 346/345) (ping)"},
		{"an idle task, traced from there", 0, 0, bpf.Inner{Ours: true}, "ping       0    1 ", " TID/PID 0/0 (ping)"},
		{"the same number in both", 345, 346, bpf.Inner{PID: 345, TID: 346, Ours: true}, "ping     345    1 ", " TID/PID 346/345 (ping)"},
	} {
		e := event.Event{Event: bpf.Event{PID: c.pid, TID: c.tid, Inner: c.inner, CPU: 1, Comm: [16]byte{'p', 'i', 'n', 'g'}}, Probe: probe(t, "send(skb->len)").Probes[0]}
		if got := string(NewCalls(Names{}).appendHead(nil, &e)); !strings.Contains(got, c.call) {
			t.Errorf("%s: a call begins with %q, want %q in it", c.name, got, c.call)
		}
		s := &session.Session{PID: c.pid, TID: c.tid, Inner: c.inner, Comm: "ping"}
		if got := string(new(Sessions).appendHeader(nil, s)); !strings.Contains(got, c.session) {
			t.Errorf("%s: a session begins with %q, want %q in it", c.name, got, c.session)
		}
	}
}
