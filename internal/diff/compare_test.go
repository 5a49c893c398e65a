// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parsed makes a run of lines: calls with their results, indented below what calls them. A value stands below its
// call: "› n = 1" if it is known at entry, "‹ n = 1" if at return; "at PLACE: CASE" is a conditional jump.
func parsed(names *Names, name, text string) *Run {
	r := &Run{Name: name, Sessions: true, Traced: true}
	var open []*Call
	var of *thread
	at := uint64(0)
	for line := range strings.Lines(text) {
		body := strings.TrimSpace(line)
		depth := (len(line) - len(strings.TrimLeft(line, "\t"))) - 1
		if body == "" {
			continue
		}
		if comm, ok := strings.CutPrefix(body, "@"); ok {
			of = &thread{Comm: comm, PID: 7, TID: 7}
			r.threads = append(r.threads, of)
			continue
		}
		at++
		left, right, _ := strings.Cut(body, " = ")
		if last := len(open) - 1; last >= 0 && depth > 0 {
			c := open[min(depth-1, last)]
			if n, ok := strings.CutPrefix(left, "› "); ok {
				c.Values = append(c.Values, Value{Name: n, Text: right})
				continue
			}
			if n, ok := strings.CutPrefix(left, "‹ "); ok {
				c.Values = append(c.Values, Value{Name: n, Text: right, AtReturn: true})
				continue
			}
			if step, ok := strings.CutPrefix(body, "at "); ok {
				place, to, _ := strings.Cut(step, ": ")
				c.Way = append(c.Way, Step{Place: place, how: to, to: to})
				continue
			}
		}
		c := &Call{Func: left, Result: right, Time: at, Finished: right != "?", Failed: strings.HasPrefix(right, "-")}
		if right == "?" {
			c.Result = ""
		}
		r.Calls++
		open = append(open[:depth], c)
		if depth > 0 {
			open[depth-1].Calls = append(open[depth-1].Calls, c)
			continue
		}
		if of == nil {
			of = &thread{Comm: "cat", PID: 7, TID: 7}
			r.threads = append(r.threads, of)
		}
		of.Calls = append(of.Calls, c)
	}
	for _, t := range r.threads {
		names.seal(t.Calls)
	}
	return r
}

func compared(good, bad string) *Result {
	names := NewNames()
	return Compare(parsed(names, "good.ks", good), parsed(names, "bad.ks", bad))
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name, good, bad, first, text string
	}{
		{"nothing", `
	open = 3
		› flags = 0
		read = 5`, `
	open = 3
		› flags = 0
		read = 5`, "", ""},
		{"a result", `
	open = 3
		check = 0
		alloc = 1
			get = 2`, `
	open = -EINVAL
		check = -EINVAL`,
			"first difference: check returned 0 in good.ks, -EINVAL in bad.ks\n    in open\n", `
  open
-   check = 0
+   check = -EINVAL
-   alloc = 1
-     get = 2
- open = 3
+ open = -EINVAL
`},
		{"a call", `
	open = 3
		a = 1
		b = 2`, `
	open = 3
		a = 1
		a = 1
		b = 2`,
			"first difference: open calls a in bad.ks only\n    in open\n", `
  open = 3
    ... 1 alike
+   a = 1
    ... 1 alike
`},
		{"at the top", "\n\topen = 3\n\tclose = 0", "\n\topen = 3", "first difference: close is called in good.ks only\n", `
  ... 1 alike
- close = 0
`},
		{"values", `
	open = 3
		› flags = 1
		› mode = 2
		read = 4
		‹ size = 5`, `
	open = 3
		› flags = 2
		› other = 2
		read = 4
		‹ size = 6`,
			`first difference: open(flags) is 1 in good.ks, 2 in bad.ks
first in what was done: open(size) is 5 in good.ks, 6 in bad.ks
`, `
  open = 3
-   › flags = 1
+   › flags = 2
-   › mode = 2
+   › other = 2
-   › size = 5
+   › size = 6
`},
		// Where the ways part before a call that only one makes, that is the first difference; else what was
		// called comes first.
		{"a way", `
	open = 3
		at 1 test a: not taken
		at 5 test b: not taken
		alloc = 1`, `
	open = -EINVAL
		at 1 test a: not taken
		at 5 test b: to 9`,
			"first difference: open, 5 test b: not taken in good.ks, to 9 in bad.ks\n", `
  open
-   › 5 test b: not taken
+   › 5 test b: to 9
-   alloc = 1
- open = 3
+ open = -EINVAL
`},
		{"a way behind a result", `
	open = 3
		at 1 test a: not taken
		check = 1`, `
	open = 3
		at 1 test a: to 9
		check = 0`,
			"first difference: check returned 1 in good.ks, 0 in bad.ks\n    in open\n", `
  open = 3
-   › 1 test a: not taken
+   › 1 test a: to 9
-   check = 1
+   check = 0
`},
		{"no return", "\n\topen = 3", "\n\topen = ?", "first difference: open returned 3 in good.ks, no return in bad.ks\n", `
- open = 3
+ open, no return
`},
		// One call less in a loop: the values say which one.
		{"a loop", `
	read = 1
		› at = 1
	read = 1
		› at = 2
	read = 1
		› at = 3`, `
	read = 1
		› at = 1
	read = 1
		› at = 3`,
			"first difference: read is called in good.ks only\n", `
  ... 1 alike
- read = 1
  ... 1 alike
`},
		// A call that made no others has all of its values at its return.
		{"a leaf", "\n\topen = 3\n\t\t‹ flags = 1\n\t\t‹ x = 1", "\n\topen = 3\n\t\t› flags = 2\n\t\tread = 1\n\t\t‹ x = 1",
			"first difference: open(flags) is 1 in good.ks, 2 in bad.ks\nfirst in what was done: open calls read in bad.ks only\n    in open\n",
			"  open = 3\n-   › flags = 1\n+   › flags = 2\n+   read = 1\n"},
		// One byte of a union is in many values.
		{"many values", "\n\topen = 3" + strings.Repeat("\n\t\t› x = 1", 9), "\n\topen = 3" + strings.Repeat("\n\t\t› x = 2", 9),
			"first difference: open(x) is 1 in good.ks, 2 in bad.ks\n",
			"  open = 3\n" + strings.Repeat("-   › x = 1\n+   › x = 2\n", 8) + "    ... and 1 more value\n"},
		// What is below a call belongs to it: nothing of the second open is taken for the first one's.
		{"callers", `
	open = 3
		read = 1
	open = 4`, `
	open = 3
	open = 4
		read = 1`,
			"first difference: open calls read in good.ks only\n    in open\n", `
  open = 3
-   read = 1
  open = 4
+   read = 1
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compared(c.good, c.bad)
			if diff := cmp.Diff(c.first, string(r.AppendFirst(nil))); diff != "" {
				t.Error(diff)
			}
			var text bytes.Buffer
			if err := r.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimPrefix(c.text, "\n")
			if want != "" {
				want = "\n--- good.ks\n+++ bad.ks\n@@ cat 7/7, cat 7/7 @@\n" + want
			}
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCompareThreads: threads of one name belong together in their order, and each has its part.
func TestCompareThreads(t *testing.T) {
	r := compared("\t@sh\n\topen = 1\n\t@cat\n\topen = 2\n\t@cat\n\topen = 3", "\t@cat\n\topen = 2\n\t@sh\n\topen = 1\n\t@ls\n\topen = 3")
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := "\n--- good.ks\n+++ bad.ks\n@@ cat 7/7 @@\n- open = 3\n@@ ls 7/7 @@\n+ open = 3\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWriteJSON(t *testing.T) {
	r := compared("\n\topen = 3\n\t\t› flags = 1\n\t\tcheck = 0\n\t\talloc = 1", "\n\topen = -EINVAL\n\t\t› flags = 2\n\t\tcheck = -EINVAL")
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"header","good":{"file":"good.ks","calls":3},"bad":{"file":"bad.ks","calls":2}}
{"kind":"value","function":"open","callers":[],"name":"flags","good":"1","bad":"2","good_time":1,"bad_time":1,"at_entry":true}
{"kind":"result","function":"check","callers":["open"],"name":"return","good":"0","bad":"-EINVAL","good_time":3,"bad_time":3}
{"kind":"call","function":"alloc","callers":["open"],"good":"1","bad":null,"good_time":4}
{"kind":"result","function":"open","callers":[],"name":"return","good":"3","bad":"-EINVAL","good_time":1,"bad_time":1}
{"kind":"end","differences":4}
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(text.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is no JSON", line)
		}
	}
}

// TestWriteSource: the line of a jump comes first, and those it was inlined at after it.
func TestWriteSource(t *testing.T) {
	r := compared("\n\tf = 1\n\t\tat +5: not taken", "\n\tf = 1\n\t\tat +5: to +9")
	for want, source := range map[string][]string{
		`"name":"+5","good"`:                                                 nil,
		`"name":"+5","source":"a.c:1","good"`:                                {"a.c:1"},
		`"name":"+5","source":"a.c:1","inlined_at":["b.c:2","c.c:3"],"good"`: {"a.c:1", "b.c:2", "c.c:3"},
	} {
		r.Locate(func(string, uint64) []string { return source })
		var text bytes.Buffer
		if err := r.WriteJSON(&text); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%v, %s; want %s", err, text.String(), want)
		}
	}
}

// TestParting: of branches, of which the oldest are missing, only those count that follow the first one of both.
func TestParting(t *testing.T) {
	way := func(text string) *Call {
		c := &Call{cut: true}
		for _, place := range strings.Fields(text) {
			c.Way = append(c.Way, Step{Place: place, how: "to " + place, to: place})
		}
		return c
	}
	for _, c := range []struct{ good, bad, place string }{
		{"a b c", "a b c", ""},
		{"a b c", "b c", ""},
		{"b c", "a b c", ""},
		{"a b c d", "b c e", "d"},
		{"b c", "a b c d", "d"},
		{"a b", "c d", ""}, // nothing says where to begin
	} {
		place, _, ok := parting(way(c.good), way(c.bad))
		if place != c.place || ok != (c.place != "") {
			t.Errorf("%s, %s: %q, %v", c.good, c.bad, place, ok)
		}
	}
}

// TestHalves: a failure is compared with the success of its function that is nearest before it, else with the next one.
func TestHalves(t *testing.T) {
	run := parsed(NewNames(), "a.ks", "\n\topen = 3\n\topen = 4\n\tstat = 0\n\topen = -ENOENT\n\topen = 5\n\tread = -EIO\n\t\topen = -EPERM\n\tread = 7\n\tmap = -EINVAL")
	for _, c := range []struct {
		entry     string
		n         int
		good, bad string
		fault     string
	}{
		{"*", 1, "4", "-ENOENT", ""},
		{"*", 2, "7", "-EIO", ""},
		{"open", 2, "5", "-EPERM", ""},
		{"*", 3, "", "", "a.ks has no call of map that succeeded"},
		{"*", 4, "", "", "a.ks has 8 calls, of which 3 failed, and failure 4 is asked for"},
		{"nope", 1, "", "", "a.ks has no calls of nope"},
	} {
		good, bad, err := run.Halves(c.entry, c.n)
		if err != nil || c.fault != "" {
			if err == nil || err.Error() != c.fault {
				t.Errorf("%s, %d: %v", c.entry, c.n, err)
			}
			continue
		}
		if g, b := good.threads[0].Calls[0].Result, bad.threads[0].Calls[0].Result; g != c.good || b != c.bad {
			t.Errorf("%s, %d: %s and %s", c.entry, c.n, g, b)
		}
	}
}

// TestPick: functions are taken where they are, but not those that they call again.
func TestPick(t *testing.T) {
	run := parsed(NewNames(), "a.ks", "\n\tread = 1\n\t\topen = 2\n\t\t\topen = 3\n\topen = 4")
	only := run.Only("op*")
	if only.Calls != 3 || len(only.threads) != 1 || len(only.threads[0].Calls) != 2 {
		t.Errorf("%+v", only)
	}
	if nth, err := run.Nth("open", 2); err != nil || nth.threads[0].Calls[0].Result != "4" || nth.About != "open at 0.000000004" {
		t.Errorf("%+v, %v", nth, err)
	}
	if _, err := run.Nth("*", 99); err == nil || !strings.HasSuffix(err.Error(), " calls, and call 99 is asked for") {
		t.Errorf("call 99: %v", err)
	}
	if _, err := run.Nth("open", 3); err == nil || err.Error() != "a.ks has 2 calls of open, and call 3 is asked for" {
		t.Error(err)
	}
}

// TestLocate: places are offsets in the function itself, in a part of it or, of branches, in any one.
func TestLocate(t *testing.T) {
	for place, want := range map[string]string{"+0x2d cmp a": "f+45", ".cold+0x10 test": "f.cold+16", "g+5": "g+5", "0xffffffff81000000": ""} {
		r := compared("\n\tf = 1\n\t\tat "+place+": not taken", "\n\tf = 1\n\t\tat "+place+": to +0x3")
		r.Locate(func(symbol string, offset uint64) []string { return []string{fmt.Sprintf("%s+%d", symbol, offset)} })
		if d := r.Differences[0]; strings.Join(d.Source, ",") != want {
			t.Errorf("%s: %q, want %q", place, d.Source, want)
		}
		shown := place
		if want != "" {
			shown = want + ", " + place
		}
		if text := string(r.AppendFirst(nil)); text != "first difference: f, "+shown+": not taken in good.ks, to +0x3 in bad.ks\n" {
			t.Error(text)
		}
	}
}
