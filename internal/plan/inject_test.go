// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// TestInject: injected probes follow the functions, and have the values of
// the one end that they see.
func TestInject(t *testing.T) {
	for _, test := range []struct{ spec, want, fault string }{
		{spec: "kprobe:send(sk->len)", want: "kprobe:send kprobe entry:1"},
		{spec: "kprobe:send+0x9($di)", want: "kprobe:send+0x9 kprobe entry:1"},
		{spec: "kprobe:send+0x9($di == 1, $si)", want: "kprobe:send+0x9 kprobe entry:2 if:1"},
		{spec: "kretprobe:send", want: "kretprobe:send kprobe return:1"},
		{spec: "kretprobe:send()", want: "kretprobe:send kprobe return:0"},
		{spec: "kretprobe:drop", want: "kretprobe:drop kprobe return:0"},
		{spec: "kretprobe:send(return < 0)", want: "kretprobe:send kprobe return:1 if:1"},
		{spec: "kretprobe:send(return < 0, $pid == 3)", want: "kretprobe:send kprobe return:2 if:2"},
		{spec: "kretprobe:find(return->len)", want: "kretprobe:find kprobe return:1"},
		{spec: "kretprobe:send(count)", fault: "what it was called with is gone"},
		{spec: "kretprobe:send(return < count)", fault: "what it was called with is gone"},
		{spec: "kretprobe:send(sk->len == 1)", fault: "what it was called with is gone"},
		{spec: "kretprobe:send($duration)", fault: "what it was called with is gone"},
		{spec: "kretprobe:drop(return)", fault: "returns nothing"},
		{spec: "kretprobe:snd", fault: `no function is called "snd"`},
		{spec: "kprobe:send+0x9(return)", fault: "return"},
	} {
		text, ret := strings.CutPrefix(test.spec, "kretprobe:")
		r := SessionRequest{Entry: specs(t, "send"), Inject: []InjectedSpec{{Spec: parse(t, text), Return: ret}}, Args: true}
		s, _, err := ResolveSession(sessionView(t), r, Options{Arch: "amd64"})
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, want %q", test.spec, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.spec, err)
			continue
		}
		p := s.Probes[1]
		got := p.Name + " " + p.Method.String()
		for name, half := range map[string]*layout.Half{"entry": p.Entry, "return": p.Return} {
			if half == nil {
				continue
			}
			got += fmt.Sprintf(" %s:%d", name, len(half.Stores))
			if n := len(half.Predicates); n > 0 {
				got += fmt.Sprintf(" if:%d", n)
			}
		}
		if got != test.want || p.ID != 1 || p.IsCall() || p.Args != nil || p.Stashed {
			t.Errorf("%s: %s, want %s", test.spec, got, test.want)
		}
	}
}
