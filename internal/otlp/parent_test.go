// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/session"
)

// The example of W3C's Trace Context, section 3.2.4.
const (
	givenTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	givenSpan  = "00f067aa0ba902b7"
	given      = "00-" + givenTrace + "-" + givenSpan + "-01"
)

// TestDecodeContext: a context is a traceparent, as the specification has it, or both numbers.
func TestDecodeContext(t *testing.T) {
	for text, want := range map[string]outcome{
		given:                               child,
		given + "\x00\x00":                  child,
		"cc" + given[2:]:                    child, // a later version
		"cc" + given[2:] + "-what-the-heck": child,
		"cc" + given[2:] + ".what":          malformed,
		given + "-what":                     malformed, // version 00 has no more
		"ff" + given[2:]:                    malformed,
		given[:53] + "00":                   unsampled,
		given[:53] + "03":                   child,
		strings.ToUpper(given):              malformed,
		strings.Replace(given, "-", "_", 1): malformed,
		given[:54]:                          malformed,
		"00-" + strings.Repeat("0", 32) + given[35:]: malformed,
		given[:36] + strings.Repeat("0", 16) + "-01": malformed,
		"00-" + strings.Repeat("g", 32) + given[35:]: malformed,
		"":                                      empty,
		"\x00\x00":                              empty,
		strings.Repeat("\x00", 24):              empty,
		strings.Repeat("\x00", 16) + "12345678": empty,
		"0123456789abcdef" + "12345678":         child,
		"/etc/passwd":                           malformed,
	} {
		r, got := decodeContext([]byte(text))
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
		if got == child && len(text) > 24 && (string(r.trace[:4]) != "\x4b\xf9\x2f\x35" || string(r.span[:4]) != "\x00\xf0\x67\xaa") {
			t.Errorf("%q: %x %x", text, r.trace, r.span)
		}
	}
	if _, o := decodeText([]byte("0123456789abcdef12345678")); o != malformed {
		t.Error("a text of 24 letters is a context")
	}
	if r, _ := decodeContext([]byte("0123456789abcdef12345678")); string(r.trace[:]) != "0123456789abcdef" || string(r.span[:]) != "12345678" {
		t.Errorf("%q %q", r.trace, r.span)
	}
}

// TestParent: a call is in the span whose context was captured with it, and what became of others is counted.
func TestParent(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(str(path), count)")
	raw := func(at uint64, text string) []byte {
		return k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindEntry, Time: at, PID: 7, TID: 8}, Words: []uint64{4096}, Text: text})
	}
	var counts Parents
	for _, spans := range []bool{true, false} {
		p := New(k.Run, Options{Spans: spans, Parent: "str(path)", Parents: &counts})
		if err := p.options.CheckParent(k.Run.Plan); err != nil {
			t.Fatal(err)
		}
		got := read(t, printed(t, k, p, raw(1000, given), raw(2000, given), raw(3000, "x"), raw(4000, "")))
		if len(got) != 4 {
			t.Fatalf("%q", got)
		}
		in, parent := "trace_id="+givenTrace, " parent_span_id="+givenSpan
		if !spans {
			parent = " span_id=" + givenSpan
		}
		for i, line := range got {
			if has := strings.Contains(line, in) && strings.Contains(line, parent); has != (i < 2) || strings.Contains(line, "parent_span_id") && i >= 2 {
				t.Errorf("event %d, spans %v: %s", i, spans, line)
			}
			if strings.Contains(line, "ksnoop.value.str") || !strings.Contains(line, "ksnoop.value.count=4096") {
				t.Errorf("event %d: values: %s", i, line)
			}
		}
		_, first, _ := strings.Cut(got[0], " span_id=")
		_, second, _ := strings.Cut(got[1], " span_id=")
		if spans && first[:16] == second[:16] {
			t.Errorf("two spans of one trace have the number %s", first[:16])
		}
	}
	if got, want := counts.String(), "4 in spans of their programs, 4 in none (2 no span at the time, 2 no trace context)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for parent, want := range map[string]string{"buf(path, 10)": "buf(path, 10) is too short: a trace context has 24 bytes", "count": "count is a number", "str(p)": "str(p) is not among the values"} {
		o := Options{Parent: parent}
		k.Calls("t_read(str(path), count, buf(path, 10))")
		if err := o.CheckParent(k.Run.Plan); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", parent, err, want)
		}
	}
}

// TestSessionParent: the entry of a session is a child of the span, and the calls in it are its own.
func TestSessionParent(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open(buf((void *)(long)flags, 24))", "t_read", "t_alloc")
	x := k.Failed()
	probe := k.Probe("open")
	data := make([]byte, probe.Return.Record.Size)
	for _, s := range probe.Return.Record.Slots {
		copy(data[s.Off:s.Off+s.Size], "\x18\x00\x00\x00\x00\x00\x00\x000123456789abcdef12345678")
	}
	x.Chain.Frames[0].Values = session.Values{Event: &event.Event{Probe: probe, Record: probe.Return.Record, Data: data}}
	var counts Parents
	p := New(k.Run, Options{Parent: "buf((void *)(long)flags, 24)", Parents: &counts})
	out, err := p.AppendHeader(nil)
	if err == nil {
		out, err = p.AppendSession(out, x)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := read(t, out)
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, "trace_id=30313233343536373839616263646566 ") || strings.Contains(line, "parent_span_id=3132333435363738 ") != (i == 0) {
			t.Errorf("span %d: %s", i, line)
		}
	}
	if got, want := counts.String(), "1 in spans of their programs"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	x.Chain.Frames[0].Values.Event = nil
	if out, err = p.AppendSession(p.forget(nil), x); err != nil {
		t.Fatal(err)
	}
	if lines := read(t, out); strings.Contains(lines[0], "parent_span_id") || counts.String() != "1 in spans of their programs, 1 in none (1 without the value of --parent)" {
		t.Errorf("%s: %s", &counts, lines[0])
	}
}

// TestFoundParent: what the engine has found is the parent, unless --parent has an expression.
func TestFoundParent(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	text := func(s string) (p bpf.Parent) {
		p.Kind, p.Size = bpf.ParentText, uint8(len(s))
		copy(p.Data[:], s)
		return p
	}
	span := bpf.Parent{Kind: bpf.ParentSpan}
	copy(span.Data[:], "0123456789abcdef12345678")
	var counts Parents
	for _, c := range []struct {
		found bpf.Parent
		want  string // in the first span
	}{
		{span, "trace_id=30313233343536373839616263646566 "},
		{text(given), "parent_span_id=" + givenSpan},
		{text(given[:50]), ""},
		{text(given + strings.Repeat("x", 70)), ""}, // longer than what was taken of it
		{bpf.Parent{}, ""},
		{bpf.Parent{Why: bpf.LackUnknown}, ""},
		{bpf.Parent{Why: bpf.LackUnreadable}, ""},
		{bpf.Parent{Why: bpf.LackDeep}, ""},
		{bpf.Parent{Why: bpf.LackInterrupt}, ""},
		{bpf.Parent{Kind: 200, Why: 200}, ""},
	} {
		x := k.Failed()
		x.Parent, x.HasParent = c.found, true
		p := New(k.Run, Options{Parents: &counts})
		out, err := p.AppendHeader(nil)
		if err == nil {
			out, err = p.AppendSession(out, x)
		}
		if err != nil {
			t.Fatal(err)
		}
		line := read(t, out)[0]
		if !strings.Contains(line, c.want) || strings.Contains(line, "parent_span_id") != (c.want != "") {
			t.Errorf("%+v: %s", c.found, line)
		}
	}
	if got, want := counts.String(), "2 in spans of their programs, 8 in none (1 unreadable, 2 no span at the time, 2 no trace context, 1 of programs seen for the first time, "+
		"1 with more on the stack, or in the environment, than is searched, 1 of interrupts)"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
