// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/expr"
)

// TestTraced: the names in what ksnoop trace --dry-run '*()' has printed.
func TestTraced(t *testing.T) {
	const out = "would be traced (3):\n  ip_rcv(), by fentry\n  tcp_v4_rcv.part.0(), by fentry\n  tun_open(), by fentry\n"
	var names []string
	for _, m := range traced.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	if want := []string{"ip_rcv", "tcp_v4_rcv.part.0", "tun_open"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestRefusedByName: functions that are refused by name do not keep others from being traced.
func TestRefusedByName(t *testing.T) {
	fault := func(name string) error {
		return &expr.ErrorList{Text: name, Errors: []*expr.Error{{Msg: "no " + name}}}
	}
	for _, c := range []struct {
		err  error
		want map[string]string
	}{
		{nil, nil},
		{errors.New("no memory"), nil},
		{fault("a"), map[string]string{"a": "no a"}},
		{fmt.Errorf("%w", errors.Join(errors.Join(fault("a"), fault("b")), errors.New("closing"))), map[string]string{"a": "no a", "b": "no b"}},
	} {
		if got := refusedByName(c.err); !maps.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestComplaints: messages are as Documentation/ABI/testing/dev-kmsg has them.
func TestComplaints(t *testing.T) {
	const good = "6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n"
	const bad = "3,340,5140901,-;BUG: kernel NULL pointer dereference; address: 0\n"
	var said strings.Builder
	for _, message := range []string{good, bad} {
		if got := complaintsIn(said.String()); got != "" {
			t.Errorf("a complaint: %q", got)
		}
		said.WriteString(textOf(message) + "\n")
	}
	if got, want := complaintsIn(said.String()), "NET: Registered protocol family 10\nBUG: kernel NULL pointer dereference; address: 0\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWatch: what a guest says beside its beats is kept, and a silence is noted.
func TestWatch(t *testing.T) {
	w := &watch{silence: time.AfterFunc(time.Hour, func() {}), limit: time.Hour, last: time.Now().Add(-time.Minute)}
	for _, p := range []string{"beat\n", "beat\npanic: oh\nbeat\n"} {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Error(n, err)
		}
	}
	if said := w.said(); said != "panic: oh\n" || w.silent() < time.Minute || w.silent() > 2*time.Minute {
		t.Errorf("said %q, silent for %v", said, w.silent())
	}
}

// TestRests: where RCU tasks keeps how long it rests is told by whole names.
func TestRests(t *testing.T) {
	const symbols = "ffffffff82a4b1c0 d rcu_tasks\nffffffff8110a000 t rcu_tasks_kthread\nffffffff82a4b300 d rcu_tasks_rude\nffffffffc0000000 d rcu_tasks\t[other]\n"
	at, err := rests(strings.NewReader(symbols), []uint64{0x50, 0x58})
	var want []string
	for _, place := range []uint64{0xffffffff82a4b210, 0xffffffff82a4b218, 0xffffffff82a4b350, 0xffffffff82a4b358} {
		want = append(want, fmt.Sprint(place))
	}
	if err != nil || !slices.Equal(at, want) {
		t.Errorf("%q, %v, want %q", at, err, want)
	}
	if at, err := rests(strings.NewReader("82a4b1cx d rcu_tasks\n"), []uint64{0}); err == nil {
		t.Errorf("no address: %q", at)
	}
}
