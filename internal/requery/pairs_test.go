// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

const pairs = 200

// What a recording of one SPEC answers to another is what a run with that SPEC prints. The first
// SPEC has what the hints about the second say must be recorded.
func TestPairs(t *testing.T) {
	var total struct{ pairs, calls, records, unsure, hints, joined, refused int }
	for seed := uint64(1); total.pairs < pairs; seed++ {
		g := exprfuzz.NewGen(seed, "s")
		g.AddTypes(10)
		f := function(g, "f")
		view := kernelOf(t, f)
		g.Params = f.Type.(*btf.FuncProto).Params
		method := []layout.Method{layout.MethodFentry, layout.MethodKprobe, layout.MethodFsession}[seed%3]
		filter := randomSpec(t, g, view)
		base, hints := followHints(t, g, view, method, filter)
		if base == "" {
			total.refused++
			if total.refused > total.pairs/4+20 {
				t.Fatalf("%d pairs refused of %d", total.refused, total.pairs)
			}
			continue
		}
		total.pairs++
		total.hints += hints
		owner := layout.Owner(seed/3) % 4
		recorded, live := ownedPlanOf(t, view, owner, method, base), planOf(t, view, method, filter)
		joined := recorded.Probes[0].Joined || recorded.Probes[0].Entry == nil || recorded.Probes[0].Entry.Record == nil
		if joined {
			total.joined++
		}
		moments, unsure := scenario(t, g, view, recorded, filter, joined)
		total.unsure += unsure
		total.calls += len(moments) / 2

		a, err := New(recorded, view, Question{Specs: parse(t, filter), Arch: "amd64"})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := printed(t, a.Plan(), a.Records(sent(recorded, moments)), a.Pairs())
		want := printed(t, live, sent(live, moments), a.Pairs())
		total.records += strings.Count(want, " f(")
		if joined {
			got, want = sorted(got), sorted(want)
		}
		if got != want {
			t.Fatalf("seed %d: recorded %s\nasked %s\n%s", seed, base, filter, difference(got, want))
		}
	}
	t.Logf("%+v", total)
	if total.records < 10*pairs || total.joined < pairs/10 || total.unsure > total.calls {
		t.Errorf("the pairs show too little: %+v", total)
	}
}

// randomSpec makes a SPEC that asks for random values, and for calls by random predicates.
func randomSpec(t testing.TB, g *exprfuzz.Gen, view *kernel.View) string {
	t.Helper()
	for {
		var items []string
		g.AtReturn = g.IntN(2) == 0
		for range 1 + g.IntN(4) {
			items = append(items, g.Item())
		}
		if g.IntN(3) > 0 {
			items = append(items, g.Int(2)+" "+[]string{"!=", "<", ">="}[g.IntN(3)]+" "+g.Int(2))
		}
		if g.IntN(4) == 0 {
			p, _ := g.Ptr(2)
			items = append(items, []string{"exit(%s)", "diff(%s)", "str(%s)", "buf(%s, 12)", "exit(str(%s))"}[g.IntN(5)])
			items[len(items)-1] = fmt.Sprintf(items[len(items)-1], p)
		}
		if g.IntN(4) == 0 {
			items = append(items, []string{"$comm", "$pid", "$uid", `$comm == "eth1"`, "$tid != 0"}[g.IntN(5)])
		}
		spec := "f(" + strings.Join(items, ", ") + ")"
		if checks(view, spec) {
			return spec
		}
	}
}

func checks(view *kernel.View, text string) bool {
	spec, err := expr.Parse(text)
	if err != nil {
		return false
	}
	_, _, err = plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: "amd64"})
	return err == nil
}

var hinted = regexp.MustCompile("record `([^`]+)` too|ask for `([^`]+)`")

// followHints returns a SPEC that records what the hints about another one ask for, and how many
// there were. It is empty if that is too much for one record.
func followHints(t testing.TB, g *exprfuzz.Gen, view *kernel.View, method layout.Method, filter string) (spec string, hints int) {
	t.Helper()
	var items []string
	for _, p := range g.Params {
		if g.IntN(2) == 0 {
			items = append(items, p.Name)
		}
	}
	if g.IntN(4) == 0 { // one record for each call
		items = append(items, "return == return")
	}
	for range 60 {
		base := "f(" + strings.Join(items, ", ") + ")"
		if len(base) > expr.MaxLength || !checks(view, base) {
			return "", hints
		}
		_, err := New(planOf(t, view, method, base), view, Question{Specs: parse(t, filter), Arch: "amd64"})
		var faults *expr.ErrorList
		switch {
		case err == nil:
			return base, hints
		case !errors.As(err, &faults):
			t.Fatal(err)
		}
		had := len(items)
		for _, e := range faults.Errors {
			m := hinted.FindStringSubmatch(e.Hint)
			if e.Code != codeNotRecorded || m == nil {
				t.Fatalf("%s\n%v", base, err)
			}
			if m[1] == "" { // it has what is asked for as it is at return, and is joined
				return "", hints
			}
			switch i := slices.Index(items, m[1]); {
			case i >= 0 && i < had:
				t.Fatalf("%s\nhas what the hint says:\n%v", base, err)
			case i < 0:
				items = append(items, m[1])
				hints++
			}
		}
	}
	t.Fatalf("hints without end: %s", filter)
	return "", hints
}

// scenario is of calls in several threads, within each other. Calls whose answer depends on
// objects of which only a part can be read are left out; unsure says how many.
func scenario(t testing.TB, g *exprfuzz.Gen, view *kernel.View, recorded *plan.Plan, filter string, joined bool) (moments []moment, unsure int) {
	t.Helper()
	a, err := New(recorded, view, Question{Specs: parse(t, filter), Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var open [3][]*simulated
	now := uint64(1e9)
	for step := range 80 {
		now += 1 + g.Uint64N(1e6)
		thread := g.IntN(len(open))
		stack := &open[thread]
		if n := len(*stack); n > 0 && (g.IntN(2) == 0 || step > 70) {
			c := (*stack)[n-1]
			*stack = (*stack)[:n-1]
			c.stop, c.cpu[expr.AtReturn] = now, uint16(g.IntN(4))
			if joined { // as is printed of a call that was recorded at its return
				at := slices.IndexFunc(moments, func(m moment) bool { return m.call == c })
				moments = slices.Delete(moments, at, at+1)
				moments = append(moments, moment{c, expr.AtEntry})
				c.start, c.cpu[expr.AtEntry] = c.stop, c.cpu[expr.AtReturn]
			}
			moments = append(moments, moment{c, expr.AtReturn})
			continue
		}
		c := newCall(g, uint32(100*thread+100))
		c.start, c.stop, c.cpu[expr.AtEntry] = now, now, uint16(g.IntN(4))
		before := a.Counts()
		for range a.Records(sent(recorded, []moment{{c, expr.AtEntry}, {c, expr.AtReturn}})) {
		}
		if now := a.Counts(); now.Unsure+now.Partial > before.Unsure+before.Partial {
			unsure++
			continue
		}
		*stack = append(*stack, c)
		moments = append(moments, moment{c, expr.AtEntry})
	}
	if joined { // calls that do not return are not recorded
		moments = slices.DeleteFunc(moments, func(m moment) bool {
			return m.at == expr.AtEntry && m.call.stop == m.call.start && !returned(moments, m.call)
		})
	}
	return moments, unsure
}

func returned(moments []moment, c *simulated) bool {
	return slices.Contains(moments, moment{c, expr.AtReturn})
}

// sorted sorts the blocks of a text.
func sorted(text string) string {
	blocks := strings.SplitAfter(text, ");\n")
	slices.Sort(blocks)
	return strings.Join(blocks, "")
}

// difference shows the first block in which two texts differ.
func difference(got, want string) string {
	g, w := strings.SplitAfter(got, ");\n"), strings.SplitAfter(want, ");\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got:\n" + g[i] + "want:\n" + w[i]
		}
	}
	return fmt.Sprintf("got %d blocks, want %d", len(g), len(w))
}
