// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/mappings"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/unwind"
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

// silent tells of nothing that processes map.
type silent struct{}

func (silent) Take(dst []mappings.Event, _ uint64) []mappings.Event { return dst }

// TestUserStackWithinCode: a stack by frame pointers ends where it leaves the code of the process for good. Generated code is code,
// although /proc/PID/maps has no name for it. A stack by unwind information ends for a reason of its own.
func TestUserStackWithinCode(t *testing.T) {
	const maps = "400000-500000 r-xp 00000000 fe:01 131 /usr/bin/java\n7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
	symbols := process.Following(fstest.MapFS{"proc/7/maps": {Data: []byte(maps)}}, process.NumberedOurs, silent{}, false)
	tails := &output.Tails{User: func(e *bpf.Event, comm string) output.Process { return symbols.Of(e, comm) }}
	const main, generated, elsewhere = "0x401000 (/usr/bin/java)", "0x7f0000000500 (//anon)", 0x7ffc7adf2b60
	unwound := func(end unwind.End, frames ...bpf.UserFrame) bpf.Section {
		s := bpf.Section{Unwound: true}
		for _, f := range append(frames, bpf.UserStackEnd(uint8(end))) {
			s.Data = binary.LittleEndian.AppendUint64(s.Data, uint64(f))
		}
		return s
	}
	pointers := func(addrs ...uint64) (s bpf.Section) {
		for _, a := range addrs {
			s.Data = binary.LittleEndian.AppendUint64(s.Data, a)
		}
		return s
	}
	for name, tt := range map[string]struct {
		pid     uint32
		section bpf.Section
		want    []string
	}{
		"generated code":       {7, pointers(0x401000, 0x7f0000000500, 0x402000, 0x7f0000000500), []string{main, generated, "0x402000 (/usr/bin/java)", generated}},
		"no frame pointers":    {7, pointers(0x401000, elsewhere, elsewhere, elsewhere+8), []string{main, output.NoCode}},
		"of another process":   {8, pointers(0x401000, elsewhere), []string{"0x401000", "0x7ffc7adf2b60", "/* process 8 has ended: too late to name its addresses */"}},
		"unwound to elsewhere": {7, unwound(unwind.EndUnmapped, bpf.NewUserFrame(0x401000, 0, true), bpf.NewUserFrame(elsewhere, uint8(unwind.ByTable), false)), []string{main, "0x7ffc7adf2b60", "... the address above is of no known code"}},
		"unwound by a pointer": {7, unwound(unwind.EndOutermost, bpf.NewUserFrame(0x401000, 0, true), bpf.NewUserFrame(0x7f0000000500, uint8(unwind.ByPointer), false)), []string{main, generated + "  [frame pointer]"}},
	} {
		e := event.Event{}
		e.PID, e.TID, e.Time = tt.pid, tt.pid, 9
		f := Failure{user: &userStack{event: e, section: tt.section}}
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
