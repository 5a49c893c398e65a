// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// TestRedact: what is redacted is not read, and calls are sent at the same ends as without. A
// predicate reads what it needs.
func TestRedact(t *testing.T) {
	view := testView(t)
	found, err := view.Match("send", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec, redact string
		labels       []string // of what is left
	}{
		{"send", "*", nil},
		{"send", "sk", []string{"count", "return"}},
		{"send(count, return)", "return", []string{"count"}},
		{"send(sk->len, *sk)", "sk->len", []string{"*sk"}},
		{"send(sk->len == 3, count)", "sk->*", []string{"count"}},
		{"send(sk->len == 3, return < 0)", "*", nil},
		{"send(exit(sk->len), diff(sk->len), count)", "*(*)", []string{"count"}},
		{"send($comm, str(sk), $duration)", "*(sk)", []string{"$comm", "$duration"}},
	} {
		spec, err := expr.Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodKprobeSession} {
			o := Options{Arch: "amd64", Method: func(*Probe) layout.Method { return m }}
			open, err := NewProbe(view, spec, found[0], o)
			if err != nil {
				t.Fatal(err)
			}
			o.Redact = []string{c.redact}
			p, err := NewProbe(view, spec, found[0], o)
			if err != nil {
				t.Fatal(err)
			}
			sends := func(p *Probe) [3]bool {
				has := func(h *layout.Half) bool { return h != nil && h.Record != nil }
				return [3]bool{p.Joined, has(p.Entry), has(p.Return)}
			}
			if sends(p) != sends(open) {
				t.Errorf("%s by %s without %s: sent at %v, with it %v", c.spec, m, c.redact, sends(p), sends(open))
			}
			var left []string
			for _, half := range []*layout.Half{p.Entry, p.Return} {
				if half == nil || half.Record == nil {
					continue
				}
				for i := range half.Record.Slots {
					s := &half.Record.Slots[i]
					if s.Capture < 0 {
						continue
					}
					capture := &p.Items[s.Item].Captures[s.Capture]
					_, constant := s.Term.(*expr.Const)
					if passed, ok := s.Term.(*expr.Passed); ok {
						_, constant = passed.X.(*expr.Const)
					}
					switch {
					case capture.Withheld == nil && !slices.Contains(left, capture.Label):
						left = append(left, capture.Label)
					case capture.Withheld != nil && (!constant || s.Size != 8):
						t.Errorf("%s by %s without %s: %s is read, as %T of %d bytes", c.spec, m, c.redact, capture.Label, s.Term, s.Size)
					}
				}
			}
			if !slices.Equal(left, c.labels) {
				t.Errorf("%s by %s without %s: %q are left, want %q", c.spec, m, c.redact, left, c.labels)
			}
			if len(p.Items) != len(open.Items) || p.Items[0].Predicate != nil && !expr.Same(p.Items[0].Predicate, open.Items[0].Predicate) {
				t.Errorf("%s without %s has other predicates", c.spec, c.redact)
			}
		}
	}
}

// TestRedactArgs: of the arguments of sessions, the words and what they point to are left out.
func TestRedactArgs(t *testing.T) {
	view := testView(t)
	spec, err := expr.Parse("send")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := ResolveSession(view, SessionRequest{Entry: []*expr.Spec{spec}, Args: true}, Options{Arch: "amd64", Redact: []string{"s?"}})
	if err != nil {
		t.Fatal(err)
	}
	args := p.Probes[0].Args
	if len(args) != 2 || !args[0].Withheld || args[0].Target != nil || args[0].Words != 1 || args[1].Withheld || args[1].Words != 1 {
		t.Errorf("%+v", args)
	}
	if !p.Withholds("sk") || !p.Withholds("c*t") || p.Withholds("skb") {
		t.Error("what globs match")
	}
}

// TestRedactKept: what a predicate of return compares lies in the record if the method has no
// arguments at return. That is refused rather than recorded.
func TestRedactKept(t *testing.T) {
	view := testView(t)
	found, err := view.Match("send", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec    string
		method  layout.Method
		refused bool
	}{
		{"send(return < count)", layout.MethodKprobe, true},
		{"send(return < count)", layout.MethodFentry, false},
		{"send(return < sk->len)", layout.MethodFentry, true},
		{"send(return < 0, count)", layout.MethodKprobe, false},
	} {
		spec, err := expr.Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Arch: "amd64", Redact: []string{"*"}, Method: func(*Probe) layout.Method { return c.method }}
		if _, err = NewProbe(view, spec, found[0], o); (err != nil) != c.refused {
			t.Errorf("%s by %s: %v", c.spec, c.method, err)
		}
		if o.Redact = nil; c.refused {
			if _, err := NewProbe(view, spec, found[0], o); err != nil {
				t.Errorf("%s by %s, not redacted: %v", c.spec, c.method, err)
			}
		}
	}
}
