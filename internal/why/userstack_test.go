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
