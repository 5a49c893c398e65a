// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// sessionsOf is a plan for sessions that calls of f open.
func sessionsOf(t testing.TB, view *kernel.View, spec string, inside ...string) (*plan.Plan, error) {
	t.Helper()
	p, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(t, spec), Allow: parse(t, inside...)}, plan.Options{Arch: "amd64",
		Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }})
	return p, err
}

// TestInsidePairs: what sessions of one SPEC answer to another is what sessions of a run with
// that SPEC have.
func TestInsidePairs(t *testing.T) {
	var total struct{ pairs, calls, kept, unsure int }
	for seed := uint64(5000); total.pairs < pairs; seed++ {
		g := exprfuzz.NewGen(seed, "s")
		g.AddTypes(10)
		f := function(g, "f")
		view := kernelOf(t, f)
		g.Params = f.Type.(*btf.FuncProto).Params
		filter := randomSpec(t, g, view)
		live, err := sessionsOf(t, view, filter)
		if err != nil {
			continue
		}
		recorded, a := hintedSessions(t, g, view, filter)
		if a == nil {
			continue
		}
		total.pairs++
		for range 20 {
			c := newCall(g, 100)
			c.start, c.stop = 1e9, 2e9
			before := a.Counts()
			got, kept := answered(t, a, recorded, c)
			if now := a.Counts(); now.Unsure+now.Partial > before.Unsure+before.Partial {
				total.unsure++
				continue
			}
			total.calls++
			want := valuesOf(t, live, c)
			if kept != (want != nil) {
				t.Fatalf("seed %d: recorded %s\nasked %s: kept %t, want %t", seed, recorded.Probes[0].Spec.Text, filter, kept, want != nil)
			}
			if kept {
				total.kept++
				for _, s := range got.Record.Slots {
					g, ok := got.Bytes(&s)
					w, known := want.Bytes(&s)
					if s.Capture >= 0 && (ok != known || ok && !bytes.Equal(g, w)) {
						t.Fatalf("seed %d: recorded %s\nasked %s\nslot %d: got %x %t, want %x %t", seed, recorded.Probes[0].Spec.Text, filter, s.Index, g, ok, w, known)
					}
				}
			}
		}
	}
	t.Logf("%+v", total)
	if total.kept < 2*pairs || total.unsure > total.calls {
		t.Errorf("the pairs show too little: %+v", total)
	}
}

// hintedSessions returns sessions that record what hints about a SPEC say; no answer if that is
// too much for one record.
func hintedSessions(t *testing.T, g *exprfuzz.Gen, view *kernel.View, filter string) (*plan.Plan, *Inside) {
	t.Helper()
	items := []string{g.Params[0].Name}
	for range 60 {
		p, err := sessionsOf(t, view, "f("+strings.Join(items, ", ")+")")
		if err != nil {
			return nil, nil
		}
		a, err := NewInside(p, view, Question{Specs: parse(t, filter), Arch: "amd64"}, false)
		var faults *expr.ErrorList
		switch {
		case err == nil:
			return p, a
		case !errors.As(err, &faults):
			t.Fatal(err)
		}
		had := slices.Clone(items)
		for _, e := range faults.Errors {
			m := hinted.FindStringSubmatch(e.Hint)
			if m == nil || slices.Contains(had, m[1]) {
				t.Fatalf("%s\nhas no hint that helps:\n%v", p.Probes[0].Spec.Text, err)
			}
			if m[1] == "" {
				return nil, nil
			}
			items = append(items, m[1])
		}
		slices.Sort(items)
		items = slices.Compact(items)
	}
	t.Fatalf("hints without end: %s", filter)
	return nil, nil
}

// valuesOf returns the values of a call in sessions of a plan; nil if there is no session.
func valuesOf(t *testing.T, p *plan.Plan, c *simulated) *event.Event {
	t.Helper()
	probe := p.Probes[0]
	if probe.Entry != nil && !c.hold(probe.Entry.Predicates, probe) {
		return nil
	}
	raw := c.record(probe, expr.AtReturn)
	if raw == nil {
		return nil
	}
	e := &event.Event{}
	if err := event.Decode(p, raw, e); err != nil {
		t.Fatal(err)
	}
	return e
}

// answered returns the values that an answer gives the call that opens a session.
func answered(t *testing.T, a *Inside, p *plan.Plan, c *simulated) (*event.Event, bool) {
	t.Helper()
	frame := session.Frame{Func: p.Probes[0], Finished: true, Values: session.Values{Event: valuesOf(t, p, c)}}
	s := &session.Session{Func: p.Probes[0], Chain: session.Chain{Frames: []session.Frame{frame}}}
	kept, err := a.Keep(s)
	if err != nil {
		t.Fatal(err)
	}
	return s.Chain.Frames[0].Values.Event, kept
}

// TestInsideRefused: what recordings of sessions do not tell is refused, and why.
func TestInsideRefused(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	of := func(name string) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "n", Type: integer}, {Name: "m", Type: integer}}}}
	}
	view := kernelOf(t, of("f"), of("g"), of("h"))
	p, err := sessionsOf(t, view, "f(n)", "g(n)", "h")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		live bool
		want string // "" if it is answered
	}{
		{"f(n == 1)", false, ""},
		{"f(n == 1)", true, "recorded with --live"},
		{"f(n + 1)", true, ""},
		{"g(n, +(n > 1))", false, ""},
		{"g(n > 1)", false, "g does not open sessions"},
		{"f(m)", false, "`m` was not captured"},
		{"h(n)", false, "`n` was not captured"},
		{"f($duration > 5)", false, "`$duration` was not captured"},
		{"f($cpu)", false, "`$cpu` was not captured"},
		{"f(count()[n])", false, "calls of sessions are not added up"},
		{"h", false, ""},
		{"i(n)", false, "no calls of i were recorded"},
	} {
		_, err := NewInside(p, view, Question{Specs: parse(t, c.spec), Arch: "amd64"}, c.live)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !regexp.MustCompile(regexp.QuoteMeta(c.want)).MatchString(err.Error())) {
			t.Errorf("%s: %v, want %q", c.spec, err, c.want)
		}
	}
}

// passedTo returns what -A captures of a call: the words of its arguments and what these point to,
// read as the engine does.
func passedTo(c *simulated, p *plan.Probe) []session.Arg {
	args := make([]session.Arg, len(p.Args))
	for i := range p.Args {
		a, out := &p.Args[i], &args[i]
		if out.Param = a.Param; a.Words == 0 || a.Ref {
			continue
		}
		out.Value = make([]byte, 8*a.Words)
		c.Arg(i, 0, out.Value)
		addr := binary.LittleEndian.Uint64(out.Value)
		if a.Target == nil || addr == 0 {
			continue
		}
		space := expr.Kernel
		if int64(addr) >= 0 {
			space = expr.User
		}
		data := make([]byte, a.Size)
		if !a.Text {
			if c.Read(space, expr.AtEntry, addr, data) {
				out.Target, out.TargetType, out.Cut = data, a.Target, a.Cut(a.Size)
			}
			continue
		}
		for n := range data {
			if !c.Read(space, expr.AtEntry, addr+uint64(n), data[n:n+1]) {
				break
			}
			if data[n] == 0 || n == len(data)-1 {
				out.Target, out.TargetType, out.Text, out.Cut = data[:n], a.Target, true, data[n] != 0
				break
			}
		}
	}
	return args
}

// TestInsideArgs: sessions that were recorded with -A alone answer SPECs from the arguments, as a
// run with these SPECs would have.
func TestInsideArgs(t *testing.T) {
	var total struct{ asked, answered, calls, kept, unsure int }
	for seed := uint64(9000); total.answered < pairs/4; seed++ {
		g := exprfuzz.NewGen(seed, "s")
		g.AddTypes(10)
		f := function(g, "f")
		view := kernelOf(t, f)
		g.Params = f.Type.(*btf.FuncProto).Params
		recorded, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(t, "f"), Args: true}, plan.Options{Arch: "amd64",
			Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }})
		if err != nil {
			t.Fatal(err)
		}
		if recorded.Probes[0].Spec != nil && len(recorded.Probes[0].Spec.Items) > 0 {
			t.Fatal("values are recorded for a SPEC, too")
		}
		filter := randomSpec(t, g, view)
		live, err := sessionsOf(t, view, filter)
		if err != nil {
			continue
		}
		total.asked++
		a, err := NewInside(recorded, view, Question{Specs: parse(t, filter), Arch: "amd64"}, false)
		if err != nil {
			continue // not in the arguments
		}
		total.answered++
		for range 20 {
			c := newCall(g, 100)
			frame := session.Frame{Func: recorded.Probes[0], Finished: true, Values: session.Values{Args: passedTo(c, recorded.Probes[0])}}
			s := &session.Session{Func: recorded.Probes[0], PID: c.PID, TID: c.TID, Chain: session.Chain{Frames: []session.Frame{frame}}}
			before := a.Counts()
			kept, err := a.Keep(s)
			if err != nil {
				t.Fatal(err)
			}
			if now := a.Counts(); now.Unsure+now.Partial > before.Unsure+before.Partial {
				total.unsure++
				continue
			}
			total.calls++
			want := valuesOf(t, live, c)
			if kept != (want != nil) {
				t.Fatalf("seed %d: asked %s: kept %t, want %t", seed, filter, kept, want != nil)
			}
			if !kept {
				continue
			}
			total.kept++
			got := s.Chain.Frames[0].Values.Event
			for _, slot := range got.Record.Slots {
				g, ok := got.Bytes(&slot)
				w, known := want.Bytes(&slot)
				if slot.Capture >= 0 && (ok != known || ok && !bytes.Equal(g, w)) {
					t.Fatalf("seed %d: asked %s\nslot %d: got %x %t, want %x %t", seed, filter, slot.Index, g, ok, w, known)
				}
			}
		}
	}
	t.Logf("%+v", total)
	if total.kept < pairs/2 || total.unsure > total.calls {
		t.Errorf("this shows too little: %+v", total)
	}
}

// TestInsideOpen: calls of a trace that have not returned have what is asked of their entry.
func TestInsideOpen(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	view := kernelOf(t, &btf.Func{Name: "f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "n", Type: integer}}}})
	for _, args := range []bool{false, true} {
		spec := map[bool]string{false: "f(n)", true: "f"}[args]
		p, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(t, spec), Args: args}, plan.Options{Arch: "amd64",
			Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }})
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewInside(p, view, Question{Specs: parse(t, "f(n + 1)"), Arch: "amd64"}, false)
		if err != nil {
			t.Fatal(err)
		}
		probe := p.Probes[0]
		values := func(n byte) session.Values {
			if args {
				return session.Values{Args: []session.Arg{{Param: &probe.Params[0], Value: []byte{n, 0, 0, 0, 0, 0, 0, 0}}}}
			}
			return session.Values{Event: &event.Event{Event: bpf.Event{Kind: bpf.KindCall}, Probe: probe, Record: probe.Return.Record, Data: []byte{n, 0, 0, 0, 0, 0, 0, 0}}}
		}
		s := &session.Session{Func: probe, State: session.Exited, Trace: []session.Step{
			{Kind: session.StepEntry, Func: probe, Values: values(7)},
			{Kind: session.StepEntry, Depth: 1, Func: probe, Values: values(8)},
			{Kind: session.StepOpen, Depth: 2, Func: probe, Values: values(9)}}}
		if _, err := a.Keep(s); err != nil {
			t.Fatal(err)
		}
		for i, want := range []byte{8, 9, 10} {
			e := s.Trace[i].Values.Event
			if e == nil || len(e.Data) == 0 || e.Data[0] != want {
				t.Errorf("%s, step %d: %+v, want %d", spec, i, e, want)
			}
		}
	}
}

// TestInsideNoRoom: of a call whose values found no room only arguments may be there. What is asked of its values is not known.
func TestInsideNoRoom(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	view := kernelOf(t, &btf.Func{Name: "f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "n", Type: integer}}}})
	p, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(t, "f(n)"), Args: true}, plan.Options{Arch: "amd64",
		Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }})
	if err != nil {
		t.Fatal(err)
	}
	f := p.Probes[0]
	args := session.Values{Args: []session.Arg{{Param: &f.Params[0], Value: []byte{7, 0, 0, 0, 0, 0, 0, 0}}}}
	for spec, kept := range map[string]bool{"f(n)": true, "f(n + 1)": true, "f(n == 7)": false} {
		a, err := NewInside(p, view, Question{Specs: parse(t, spec), Arch: "amd64"}, false)
		if err != nil {
			t.Fatal(err)
		}
		s := &session.Session{Func: f, Chain: session.Chain{Frames: []session.Frame{{Func: f, Finished: true, Values: args}}},
			Trace: []session.Step{{Kind: session.StepEntry, Func: f, Values: args}, {Kind: session.StepExit, Func: f}}}
		got, err := a.Keep(s)
		if counts := a.Counts(); err != nil || got != kept || kept == (counts.Partial == 0) || kept == (counts.Unsure > 0) {
			t.Errorf("%s: kept %t, %v, %+v", spec, got, err, counts)
		}
	}
}

// FuzzArgs: whatever a recording says that -A has captured, answering does not fail.
func FuzzArgs(f *testing.F) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed | btf.Char}
	pair := &btf.Struct{Name: "pair", Size: 8, Members: []btf.Member{{Name: "a", Type: integer}, {Name: "b", Type: integer, Offset: 32}}}
	view := kernelOf(f, &btf.Func{Name: "f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
		{Name: "p", Type: &btf.Pointer{Target: pair}}, {Name: "name", Type: &btf.Pointer{Target: char}}, {Name: "n", Type: integer}, {Name: "q", Type: pair}}}})
	p, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: parse(f, "f"), Args: true}, plan.Options{Arch: "amd64",
		Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }})
	if err != nil {
		f.Fatal(err)
	}
	a, err := NewInside(p, view, Question{Specs: parse(f, `f(p, p->b, str(name), name ~ "x*", n, n > 3, q.b, buf(p, 5), exit(n) + q.a)`), Arch: "amd64"}, false)
	if err != nil {
		f.Fatal(err)
	}
	kernel := []byte{0, 0, 0, 0, 0, 0x88, 0xff, 0xff}
	f.Add(kernel, []byte("12345678"), uint8(0), uint8(4))
	f.Add(kernel, []byte("xyz"), uint8(2), uint8(4))
	f.Add([]byte{9}, []byte{}, uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, value, target []byte, flags, count uint8) {
		args := make([]session.Arg, min(int(count), 6))
		for i := range args {
			args[i] = session.Arg{Value: value, Target: target, Cut: flags&1 != 0, Text: flags&2 != 0 || i == 1}
		}
		frame := session.Frame{Func: p.Probes[0], Finished: flags&4 != 0, Values: session.Values{Args: args}}
		s := &session.Session{Func: p.Probes[0], Chain: session.Chain{Frames: []session.Frame{frame}}, Trace: []session.Step{
			{Kind: session.StepEntry, Func: p.Probes[0], Values: session.Values{Args: args}}, {Kind: session.StepExit, Func: p.Probes[0]},
			{Kind: session.StepLeaf, Func: p.Probes[0], Values: session.Values{Args: args}, Depth: -1}}}
		if _, err := a.Keep(s); err != nil {
			t.Fatal(err)
		}
	})
}
