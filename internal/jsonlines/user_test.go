// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// TestSessionOpen: what is known of a call that has not returned, and of which the entry is not there, is a step.
func TestSessionOpen(t *testing.T) {
	trace := formattest.New(t, "")
	trace.Sessions(false, "open", "read(count, exit(quick))", "alloc")
	s := trace.Failed()
	read := trace.Probe("read")
	values := &event.Event{}
	if err := event.Decode(trace.Run.Plan, trace.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindCall, Faults: 1 << 1}, Words: []uint64{7, 0}}), values); err != nil {
		t.Fatal(err)
	}
	s.Trace = []session.Step{{Kind: session.StepOpen, Depth: 1, Func: read, Time: 1500, Values: session.Values{Event: values}}}
	out, err := New(trace.Run, false).AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
	if want := `"trace":[{"step":"open","depth":1,"function":1,"name":"read","time":1500,"values":{"count":7}}],`; !strings.Contains(string(out), want) {
		t.Errorf("got\n%s", out)
	}
}

// TestSessionUserStack: a session has the frames of its process. Of anything else that a damaged recording has in
// their place nothing is said.
func TestSessionUserStack(t *testing.T) {
	trace := formattest.New(t, "")
	trace.Sessions(false, "open", "read", "alloc")
	trace.Run.User = func(*bpf.Event, string) output.Process { return userProcess{} }
	printer := New(trace.Run, false)
	s := trace.Failed()
	frames := binary.LittleEndian.AppendUint64(nil, uint64(bpf.NewUserFrame(0x1000, 0, true)))
	frames = binary.LittleEndian.AppendUint64(frames, uint64(bpf.NewUserFrame(0x2000, 3, false)))
	for _, c := range []struct {
		section bpf.Section
		want    string
	}{
		{bpf.Section{Kind: bpf.SectionUserStack, Unwound: true, Data: frames}, `"user_stack":[{"addr":"0x1000","text":"main"},{"addr":"0x2000","text":"main","way":"frame pointer"}]`},
		{bpf.Section{Kind: bpf.SectionUserStack, Errno: 14}, `"user_stack":[],"no_user_stack":"EFAULT"`},
		{bpf.Section{Kind: bpf.SectionPath, Data: make([]byte, 8)}, ""},
	} {
		s.User = &event.Event{Tail: bpf.AppendSection(nil, &c.section)}
		out, err := printer.AppendSession(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		check(t, out)
		if !strings.Contains(string(out), c.want) || c.want == "" && strings.Contains(string(out), "user_stack") {
			t.Errorf("want %s in\n%s", c.want, out)
		}
	}
}
