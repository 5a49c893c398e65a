// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// hexNames names addresses by their numbers.
type hexNames struct{}

func (hexNames) AppendFrame(dst []byte, addr uint64, _ bool) []byte {
	return strconv.AppendUint(append(dst, "\x1b at "...), addr, 16)
}
func (hexNames) Missing() string { return "" }

// TestUserStack: the stack that is shown is that of the record, although the record is not valid any more.
func TestUserStack(t *testing.T) {
	section := func(s bpf.Section) *event.Event {
		s.Kind = bpf.SectionUserStack
		e := &event.Event{}
		e.PID, e.Tail = 7, event.Tail(bpf.AppendSection(nil, &s))
		return e
	}
	addrs := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 0x401000), 0x402000)
	tails := &output.Tails{User: func(e *bpf.Event, _ string) output.Process {
		if e.PID != 7 {
			t.Error("of process", e.PID)
		}
		return hexNames{}
	}}
	for name, tt := range map[string]struct {
		event *event.Event
		want  []string
	}{
		"two frames":    {section(bpf.Section{Data: addrs}), []string{`\x1b at 401000`, `\x1b at 402000`}},
		"a cut one":     {section(bpf.Section{Data: addrs[:8], Cut: true}), []string{`\x1b at 401000`, "... and more, which were not taken"}},
		"none, and why": {section(bpf.Section{Errno: uint32(unix.EFAULT)}), []string{"user stack: none (-EFAULT)"}},
		"not taken":     {&event.Event{}, nil},
	} {
		f := Failure{user: newUserStack(tt.event)}
		clear(tt.event.Tail)
		if got := f.UserStack(tails); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestWithinCode: a stack ends where it leaves the code of the process. Without any mapping, nothing tells where that is.
func TestWithinCode(t *testing.T) {
	const end = "... no code above, since a function has no frame pointer"
	for _, tt := range []struct{ stack, want []string }{
		{[]string{"sendmsg+0x10 (/lib/libc.so.6)", "0x7f3ba34feb45 (/lib/libnftables.so.1)", "0x563cb841b210", "0x7ffc7adf2b60", "0x563cb841b210", "... and more, which were not taken"},
			[]string{"sendmsg+0x10 (/lib/libc.so.6)", "0x7f3ba34feb45 (/lib/libnftables.so.1)", end}},
		{[]string{"0x401000", "0x402000"}, []string{"0x401000", "0x402000"}},
		{[]string{"main+0x1 (/a)", "0x7f0000001000 (//anon)"}, []string{"main+0x1 (/a)", "0x7f0000001000 (//anon)"}},
		{nil, nil},
	} {
		if got := withinCode(slices.Clone(tt.stack)); !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestKeepStack: only the stacks of the last calls are kept, if there are many.
func TestKeepStack(t *testing.T) {
	w := watcher{seen: &Seen{}}
	const size, calls = 1 << 20, 100
	for range calls {
		w.seen.Calls = append(w.seen.Calls, Failure{})
		w.keepStack(&userStack{section: bpf.Section{Data: make([]byte, size)}})
	}
	kept := 0
	for i := range w.seen.Calls {
		if w.seen.Calls[i].user != nil {
			kept++
		} else if kept > 0 {
			t.Error("the stack of an early call is kept, and not that of", i)
		}
	}
	if kept != mostStacks/size-1 || w.seen.Calls[calls-1].user == nil {
		t.Errorf("%d are kept", kept)
	}
}
