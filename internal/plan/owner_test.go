// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

const wholeOwner = layout.OwnerUID | layout.OwnerCgroup

// TestOwner: the owner is in front of the values of each record that is sent, which are the same
// as without it. What is redacted of it is not there.
func TestOwner(t *testing.T) {
	view := testView(t)
	for _, text := range []string{"send", "send()", "send(count)", "send(sk->len, return < 0)", "send(sk->len, return)", "send(exit(sk->len), $duration)"} {
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeMulti} {
			o := Options{Arch: "amd64", Method: func(*Probe) layout.Method { return m }}
			without := resolveOne(t, view, text, o)
			o.Owner = wholeOwner
			with := resolveOne(t, view, text, o)
			if with.Owner != wholeOwner || without.Owner != 0 {
				t.Errorf("%s: owners %d and %d", text, with.Owner, without.Owner)
			}
			a, b := without.Probes[0], with.Probes[0]
			for i, halves := range [][2]*layout.Half{{a.Entry, b.Entry}, {a.Return, b.Return}} {
				bare, owned := halves[0], halves[1]
				if (bare == nil) != (owned == nil) || bare != nil && (bare.Record == nil) != (owned.Record == nil) {
					t.Errorf("%s by %s, half %d: sent differently", text, m, i)
					continue
				}
				if bare == nil || bare.Record == nil {
					continue
				}
				if owned.Record.Size != bare.Record.Size+layout.OwnerSize {
					t.Errorf("%s by %s, half %d: %d bytes, without owner %d", text, m, i, owned.Record.Size, bare.Record.Size)
				}
				for j, s := range owned.Record.Slots {
					if was := bare.Record.Slots[j]; s.Off != was.Off+layout.OwnerSize || s.Index != was.Index || s.Size != was.Size {
						t.Errorf("%s by %s, half %d: slot %d is %+v, was %+v", text, m, i, j, s, was)
					}
				}
			}
		}
	}
}

func TestOwnerRedacted(t *testing.T) {
	view := testView(t)
	for _, c := range []struct {
		redact string
		want   layout.Owner
	}{{"count", wholeOwner}, {"$uid", layout.OwnerCgroup}, {"$c*", layout.OwnerUID}, {"*", 0}} {
		p := resolveOne(t, view, "send(count)", Options{Arch: "amd64", Owner: wholeOwner, Redact: []string{c.redact}})
		if p.Owner != c.want || p.Probes[0].Owner != c.want {
			t.Errorf("--redact %s: owner %d of %d, want %d", c.redact, p.Probes[0].Owner, p.Owner, c.want)
		}
		if !p.Withholds(c.redact) {
			t.Errorf("--redact %s is said to redact nothing", c.redact)
		}
	}
	if p := resolveOne(t, view, "send(count)", Options{Arch: "amd64", Redact: []string{"$uid"}}); p.Withholds("$uid") || slices.Contains(slices.Collect(p.Labels()), "$uid") {
		t.Error("a plan without owner is said to have one")
	}
}

// TestSessionOwner: the session has the owner, and no call inside has it again.
func TestSessionOwner(t *testing.T) {
	p, _, err := ResolveSession(sessionView(t), SessionRequest{Entry: specs(t, "send(count)"), Allow: specs(t, "find(id)")}, Options{Arch: "amd64", Owner: wholeOwner})
	if err != nil {
		t.Fatal(err)
	}
	if p.Owner != wholeOwner {
		t.Errorf("owner %d", p.Owner)
	}
	for _, probe := range p.Probes {
		if probe.Owner != 0 || probe.Return.Record.Size != 8 {
			t.Errorf("%s: owner %d, %d bytes", probe.Name, probe.Owner, probe.Return.Record.Size)
		}
	}
}

// resolveOne resolves one SPEC.
func resolveOne(t *testing.T, view *kernel.View, text string, o Options) *Plan {
	t.Helper()
	p, _, err := Resolve(view, []*expr.Spec{parse(t, text)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
