// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/show"
)

var (
	_ show.CallPrinter    = (*Collector)(nil)
	_ show.SessionPrinter = (*Collector)(nil)
)

// TestValues: what is made of values as JSON has them, one of each form of docs/json.md.
func TestValues(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{"n":-7,"b":true}`, "n = -7; b = true"},
		{`{"p":{"addr":"0x0"},"q":{"addr":"0xff15ed7b01983840"},"f":{"addr":"0xffffffff998fb6e0","name":"zero_fops"},"e":{"addr":"0xfffffffffffffff2","name":"-EFAULT"}}`,
			"p = NULL; q = an address; f = zero_fops; e = -EFAULT"},
		{`{"attr":{"addr":"0xff28402d0195fe10","value":{"type":2,"in":{"a":1},"list":[1,2],"pairs":[{"x":1},{"x":2}]}}}`,
			"attr = an address; attr->type = 2; attr->in.a = 1; attr->list = {1, 2}; attr->pairs[0].x = 1; attr->pairs[1].x = 2"},
		{`{"path":{"addr":"0xff28402d0195fe10","value":"/etc/\"x\""}}`, `path = "/etc/\"x\""`},
		{`{"n":{"addr":"0xff28402d0195fe10","value":5}}`, "n = an address; *n = 5"},
		{`{"p":{"addr":"0xff28402d0195fe10","value":{"addr":"0xff28402d0195fe20"}},"q":{"addr":"0xff28402d0195fe10","value":{"addr":"0xffffffff998fb6e0","name":"zero_fops"}}}`,
			"p = an address; *p = an address; q = an address; *q = zero_fops"},
		{`{"s":{"addr":5,"n":6}}`, "s.addr = 5; s.n = 6"},
		{`{"cmd":{"name":"BPF_MAP_CREATE","value":0},"other":{"name":null,"value":99}}`, "cmd = BPF_MAP_CREATE; other = 99"},
		{`{"d":{"before":{"x":1},"after":{"x":2}}}`, "d.before.x = 1; d.after.x = 2"},
		{`{"s":null}`, "s = unreadable"},
		{`{"return":{"value":-22,"error":"EINVAL"}}`, "return -EINVAL"},
		{`{"return":{"addr":"0xff28402d0195fe10"}}`, "return an address"},
		{`{"return":{"name":"XDP_PASS","value":2}}`, "return XDP_PASS"},
		{`{"return":{"value":{"x":1}}}`, "return.x = 1"},
		{`{"skb->tstamp":5,"file->f_count.counter":2,"p->pid":3,"start_time":4,"a->b_ns":1,"$pid":4}`, "file->f_count.counter = 2"},
		{`{"a":18446612134627563776,"b":140737488347136,"c":18446744073709551615,"d":9223372036854775807,"e":4294967296,"f":-131939082027776,"g":-2147483649,"h":18398480572722691008,"i":-9223372036854775808}`,
			"a = an address; b = an address; c = 18446744073709551615; d = 9223372036854775807; e = 4294967296; f = an address; g = -2147483649; h = an address; i = -9223372036854775808"},
	} {
		if !json.Valid([]byte(c.json)) {
			t.Errorf("%s is no JSON", c.json)
		}
		call := &Call{Func: "f"}
		newReader(output.Run{}, NewNames(), NewIgnore(nil, false), false).values(call, []byte(c.json), false)
		var got []string
		for _, v := range call.Values {
			got = append(got, v.Name+" = "+v.Text)
		}
		if call.Result != "" {
			got = append(got, "return "+call.Result)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s: %s", c.json, diff)
		}
	}
}

func TestIgnore(t *testing.T) {
	i := NewIgnore([]string{"skb->len", "*.count", "get_*(return)", "read(n)", "kfree*()"}, false)
	for _, c := range []struct {
		fn, value string
		want      bool
	}{
		{"f", "skb->len", true}, {"f", "skb->length", false}, {"f", "a->b.count", true}, {"f", "count", false},
		{"get_x", "return", true}, {"set_x", "return", false}, {"read", "n", true}, {"write", "n", false},
		{"f", "$pid", true}, {"f", "task->pid", true}, {"f", "time_seconds", true}, {"f", "rapid", false}, {"f", "timeless.x", false},
	} {
		if got := i.value(c.fn, c.value); got != c.want {
			t.Errorf("%s(%s): %v", c.fn, c.value, got)
		}
	}
	if !i.call("kfree_skb") || i.call("kmalloc") {
		t.Error("kfree*() is not about kfree_skb, or about kmalloc")
	}
	if NewIgnore(nil, true).value("f", "$pid") {
		t.Error("something is left out of all")
	}
}

// TestIgnoreFault: what can be no name of a value or function is refused, at its place.
func TestIgnoreFault(t *testing.T) {
	for _, g := range []string{"x", "*", "skb->cb[2]", "cb[id & 1]", "a[b[1]]", "get_*(return)", "f(a[1])", "f()", "*()", "*]", "cb[*", "cb[?", "parse[xdp](n)", "$time"} {
		if err := IgnoreFault(g); err != nil {
			t.Errorf("%q: %v", g, err)
		}
	}
	for g, want := range map[string]string{
		"": "column 1: a name is missing", "[": "column 1: a name is missing before `[`", "[ab]*": "column 1: a name is missing before `[`", "(": "column 1: a name is missing before `(`",
		"()": "column 1: a name is missing before `(`", "f([1])": "column 3: a name is missing", "p->[1]": "column 4: a name", "cb[2": "column 3: nothing closes what `[` opens", "*cb[2": "column 4: nothing closes",
		"f(a[1)": "column 4: nothing closes what `[`", "cb]": "column 3: nothing opens what `]` closes", "f(n": "column 2: nothing closes what `(`", "n)": "column 2: nothing opens what `)`",
		"f(n)x": "column 5: nothing follows", "f(n)(m)": "column 5: ", "f(g(n))": "column 4: there is one pair",
	} {
		var list *expr.ErrorList
		if err := IgnoreFault(g); !errors.As(err, &list) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", g, err, want)
		}
	}
}

// written writes calls as the lines of TestCompare.
func written(text *strings.Builder, calls []*Call, depth int) {
	for _, c := range calls {
		fmt.Fprintf(text, "%s%s = %s", strings.Repeat("  ", depth), c.Func, resultText(c))
		for _, v := range c.Values {
			fmt.Fprintf(text, ", %s = %s", v.Name, v.Text)
		}
		text.WriteByte('\n')
		written(text, c.Calls, depth+1)
	}
}

func collected(t *testing.T, run output.Run, ignore []string, s *session.Session) *Run {
	t.Helper()
	c := NewCollector(run, "a.ks", NewNames(), NewIgnore(ignore, false), false)
	if _, err := c.AppendSession(nil, s); err != nil {
		t.Fatal(err)
	}
	return c.Run()
}

// TestCollectSession: the steps of a session are calls within each other; what is missing of it is told.
func TestCollectSession(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	open, read, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	s := &session.Session{PID: 7, TID: 8, Comm: "cat", Start: 1000, End: 2000, Func: open, Failed: true, Trace: []session.Step{
		{Kind: session.StepEntry, Func: open, Time: 1000},
		{Kind: session.StepLeaf, Depth: 1, Func: alloc, Time: 1200, Duration: 50, Result: 0xffff888000000000},
		{Kind: session.StepEntry, Depth: 1, Func: read, Time: 1300},
		{Kind: session.StepLost, Depth: 1},
		{Kind: session.StepLeaf, Depth: 2, Func: alloc, Time: 1400, Duration: 50},
		{Kind: session.StepExit, Depth: 1, Func: read, Time: 1500, Duration: 200, Result: formattest.Errno(12), Failed: true},
		{Kind: session.StepEntry, Depth: 1, Func: read, Time: 1600}, // of which no return was seen
		{Kind: session.StepExit, Func: open, Time: 2000, Duration: 1000, Result: formattest.Errno(12), Failed: true},
	}}
	for _, c := range []struct {
		ignore []string
		want   string
	}{
		{nil, "t_open = -ENOMEM\n  t_alloc = an address\n  t_read = -ENOMEM\n    t_alloc = NULL\n  t_read = no return\n"},
		{[]string{"t_read()"}, "t_open = -ENOMEM\n  t_alloc = an address\n"},
		{[]string{"t_alloc()", "*(return)"}, "t_open = return\n  t_read = return\n  t_read = no return\n"},
		{[]string{"t_open()"}, ""},
	} {
		r := collected(t, k.Run, c.ignore, s)
		var text strings.Builder
		for _, thread := range r.threads {
			written(&text, thread.Calls, 0)
		}
		if diff := cmp.Diff(c.want, text.String()); diff != "" {
			t.Errorf("%q: %s", c.ignore, diff)
		}
		if r.Holes != 1 || !r.Traced || !r.Sessions {
			t.Errorf("%+v", r)
		}
	}
	r := collected(t, k.Run, nil, s)
	if c := r.threads[0].Calls[0]; !c.Failed || c.Calls[0].Failed || !c.Calls[1].Failed || c.Time != 1000 || c.Calls[0].Time != 1150 {
		t.Errorf("%+v", c)
	}
	// Without -T, the calls of the chain are there.
	r = collected(t, k.Run, nil, k.Failed())
	var text strings.Builder
	written(&text, r.threads[0].Calls, 0)
	if diff := cmp.Diff("t_open = -ENOMEM\n  t_read = -ENOMEM\n    t_alloc = NULL\n", text.String()); diff != "" || r.Traced {
		t.Errorf("%s, %v", diff, r.Traced)
	}
}

// TestCollectCalls: calls of a thread are within those that were open when they were made.
func TestCollectCalls(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_open(flags, return)", "t_read(count, return)", "t_alloc(size)")
	raw := func(fn string, kind bpf.Kind, time uint64, tid uint32, words ...uint64) []byte {
		return k.Raw(formattest.Record{Func: fn, Event: bpf.Event{Time: time, PID: 7, TID: tid, Kind: kind, Comm: formattest.Comm("cat")}, Words: words})
	}
	collector := NewCollector(k.Run, "a.ks", NewNames(), NewIgnore(nil, false), false)
	for c := range k.Joined(
		raw("open", bpf.KindEntry, 100, 7, 1), raw("read", bpf.KindEntry, 200, 7, 5), raw("read", bpf.KindEntry, 210, 8, 6), raw("alloc", bpf.KindEntry, 250, 7, 64),
		raw("read", bpf.KindReturn, 300, 7, formattest.Errno(5)), raw("read", bpf.KindReturn, 310, 8, 6), raw("open", bpf.KindReturn, 400, 7, 3), raw("open", bpf.KindEntry, 500, 7, 2),
		raw("alloc", bpf.KindEntry, 600, 7, 65)) {
		if _, err := collector.AppendCall(nil, c); err != nil {
			t.Fatal(err)
		}
	}
	r := collector.Run()
	var text strings.Builder
	for _, thread := range r.threads {
		fmt.Fprintf(&text, "%s %d\n", thread.Comm, thread.TID)
		written(&text, thread.Calls, 0)
	}
	want := `cat 7
t_open = 3, flags = 1
  t_read = -EIO, count = 5
    t_alloc = no return, size = 64
t_open = return, flags = 2
t_alloc = no return, size = 65
cat 8
t_read = 6, count = 6
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

// TestFull: there is a bound of what is kept.
func TestFull(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	c := NewCollector(k.Run, "a.ks", NewNames(), NewIgnore(nil, false), false)
	c.reader.memory = maxMemory - callMemory
	if _, err := c.AppendSession(nil, k.Failed()); err != ErrFull {
		t.Error(err)
	}
}

// A fuzzed compares what it is given with every second event of it.
type fuzzed struct {
	*Collector
	other *Collector
	n     int
}

func (f *fuzzed) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	if f.n++; f.n%2 == 0 {
		if _, err := f.other.AppendCall(nil, c); err != nil {
			return dst, err
		}
	}
	return f.Collector.AppendCall(dst, c)
}

func (f *fuzzed) AppendSession(dst []byte, s *session.Session) ([]byte, error) {
	if f.n++; f.n%2 == 0 {
		if _, err := f.other.AppendSession(nil, s); err != nil {
			return dst, err
		}
	}
	return f.Collector.AppendSession(dst, s)
}

func (f *fuzzed) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) {
	r := Compare(f.Collector.Run(), f.other.Run())
	out := bytes.NewBuffer(r.AppendFirst(dst))
	if err := r.WriteText(out); err != nil {
		return nil, err
	}
	err := r.WriteJSON(out)
	return out.Bytes(), err
}

// FuzzCompare: whatever records have, what is printed is safe for a terminal, and JSON is JSON.
func FuzzCompare(f *testing.F) {
	formattest.Fuzz(f, "../../testdata/calls.ks", "../../testdata/sessions.ks", func(run output.Run) formattest.Printer {
		names := NewNames()
		return &fuzzed{Collector: NewCollector(run, formattest.Evil, names, NewIgnore(nil, false), false), other: NewCollector(run, "b.ks", names, NewIgnore(nil, false), false)}
	}, func(t *testing.T, out []byte) {
		if raw := formattest.Unsafe(string(out)); raw != "" {
			t.Errorf("%q is in\n%q", raw, out)
		}
		_, lines, ok := bytes.Cut(out, []byte(`{"kind":"header"`))
		if !ok {
			t.Fatalf("no header in %q", out)
		}
		for line := range bytes.Lines(append([]byte(`{"kind":"header"`), lines...)) {
			if !json.Valid(line) {
				t.Errorf("%q is no JSON", line)
			}
		}
	})
}

// longSession is a session of n calls, three deep, with their arguments; the call at odd has another result.
func longSession(k *formattest.Trace, n, odd int) *session.Session {
	open, read, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	s := &session.Session{PID: 7, TID: 8, Comm: "cat", Start: 1000, End: 1000 + 10*uint64(n), Func: open}
	args := func(f *plan.Probe) (v session.Values) {
		for i := range f.Args {
			v.Args = append(v.Args, session.Arg{Param: f.Args[i].Param, Value: []byte{1, 0, 0, 0, 0, 0, 0, 0}})
		}
		return v
	}
	step := func(kind session.StepKind, depth int, f *plan.Probe, result int) {
		s.Trace = append(s.Trace, session.Step{Kind: kind, Depth: depth, Func: f, Time: s.Start + 10*uint64(len(s.Trace)), Duration: 10, Result: uint64(result), Values: args(f)})
	}
	step(session.StepEntry, 0, open, 0)
	for i := 1; i < n; i += 2 {
		step(session.StepEntry, 1, read, 0)
		result := i % 7
		if i == odd {
			result = 8
		}
		step(session.StepLeaf, 2, alloc, i)
		step(session.StepExit, 1, read, result)
	}
	step(session.StepExit, 0, open, 0)
	return s
}

// TestLongSessions: two sessions of 10,000 calls take less than a second.
func TestLongSessions(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(true, "t_open", "t_read", "t_alloc")
	good, bad := longSession(k, 10_001, 0), longSession(k, 10_001, 7_001)
	start := livetest.CPUTime(t)
	names := NewNames()
	var runs [2]*Run
	for i, s := range [...]*session.Session{good, bad} {
		c := NewCollector(k.Run, "a.ks", names, NewIgnore(nil, false), false)
		if _, err := c.AppendSession(nil, s); err != nil {
			t.Fatal(err)
		}
		runs[i] = c.Run()
	}
	r := Compare(runs[0], runs[1])
	took := livetest.CPUTime(t) - start
	t.Logf("%d and %d calls: %v", runs[0].Calls, runs[1].Calls, took)
	if took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(r.Differences) != 1 || r.Differences[0].Func() != "t_read" || runs[0].Calls != 10_001 {
		t.Errorf("%d differences, %d calls", len(r.Differences), runs[0].Calls)
	}
}

// TestMissingEntry: a call whose caller's entry was lost belongs to the one around it.
func TestMissingEntry(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	open, read, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
	s := &session.Session{PID: 7, TID: 8, Comm: "cat", Start: 1000, End: 2000, Func: open, Trace: []session.Step{
		{Kind: session.StepEntry, Func: open, Time: 1000},
		{Kind: session.StepLost},
		{Kind: session.StepEntry, Depth: 2, Func: alloc, Time: 1200},
		{Kind: session.StepLeaf, Depth: 3, Func: read, Time: 1300, Duration: 50},
		{Kind: session.StepExit, Depth: 2, Func: alloc, Time: 1400, Duration: 200},
		{Kind: session.StepLeaf, Depth: 2, Func: alloc, Time: 1500, Duration: 50},
		{Kind: session.StepExit, Depth: 1, Func: read, Time: 1600, Duration: 500},
		{Kind: session.StepExit, Func: open, Time: 2000, Duration: 1000},
	}}
	var text strings.Builder
	written(&text, collected(t, k.Run, nil, s).threads[0].Calls, 0)
	if diff := cmp.Diff("t_open = 0\n  t_alloc = NULL\n    t_read = 0\n  t_alloc = NULL\n  t_read = 0\n", text.String()); diff != "" {
		t.Error(diff)
	}
}
