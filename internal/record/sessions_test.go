// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// describeSession writes what decoding and printing need to know of sessions.
func describeSession(p *plan.Plan) string {
	var b strings.Builder
	for _, f := range p.Probes {
		fmt.Fprintf(&b, "%d %s role=%d class=%d items=%t args=%d params=%d %s %s\n", f.ID, f.Name, f.Role, f.Class,
			f.HasItems(), len(f.Args), len(f.Params), f.Method, fingerprint(f))
	}
	return fmt.Sprintf("%sconditional=%t", b.String(), p.Conditional())
}

func TestSessions(t *testing.T) {
	parse := func(text string) *expr.Spec {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	request := func(args bool) plan.SessionRequest {
		return plan.SessionRequest{Args: args, Entry: []*expr.Spec{parse("vfs_read")}, Allow: []*expr.Spec{parse("vfs_write(count, return < 0)"), parse("mod_probe")},
			Specs:  []*expr.Spec{parse("ip_send_skb(skb->len)")},
			Inject: []plan.InjectedSpec{{Spec: parse("kprobe:vfs_read+0x4($di)")}, {Spec: parse("vfs_write(return)"), Return: true}}}
	}
	for _, args := range []bool{false, true} {
		f := newFixture(t, layout.MethodAuto, "vfs_read")
		s, _, err := plan.ResolveSession(f.source.View, request(args), plan.Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		if s.Probes[1], err = s.Probes[1].With(layout.MethodKprobe); err != nil { // as attaching does
			t.Fatal(err)
		}
		f.plan = s
		f.source.Sessions = &Sessions{Traced: true, Args: args, Boot: time.Unix(1e9, 5)}
		f.raw = [][]byte{[]byte("one"), []byte("two")}
		r, raw, err := read(f.bytes(t))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(describeSession(s), describeSession(r.Plan())); d != "" || !r.Plan().Sessions {
			t.Errorf("args=%t: %s", args, d)
		}
		if info := r.Info().Sessions; len(raw) != 2 || !info.Boot.Equal(f.source.Sessions.Boot) || info.Args != args || !info.Traced || info.Live {
			t.Errorf("args=%t: %d records, %+v", args, len(raw), info)
		}
	}
}
