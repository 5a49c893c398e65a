// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
)

// TestUnwindSession: the copy of a stack at the end of a session's record gives way to the stack. Nothing else
// of the record changes, and no byte of the copy is left.
func TestUnwindSession(t *testing.T) {
	const pc, code64 = 0x401000, 0x33
	regs := make([]byte, 21*8)
	binary.LittleEndian.PutUint64(regs[16*8:], pc)
	binary.LittleEndian.PutUint64(regs[17*8:], code64)
	binary.LittleEndian.PutUint64(regs[19*8:], 0x7ffc0000)
	section := bpf.Section{Kind: bpf.SectionUserCopy, Data: append(append(regs, make([]byte, 16*16)...), bytes.Repeat([]byte("secret! "), 64)...)}
	h := bpf.SessionHeader{Start: 1, End: 2, PID: 7, TID: 7, Kind: bpf.SessionEnd}
	h.Tail = bpf.AppendSection(nil, &section)
	head := bpf.AppendSession(nil, &h)
	u := &unwinding{unwinder: process.NewUnwinder(process.Following(fstest.MapFS{}, process.NumberedOurs, nil, true), "amd64"), plan: &plan.Plan{Sessions: true}}
	got, err := u.record(append(bytes.Clone(head), h.Tail...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, head) || bytes.Contains(got, []byte("secret")) {
		t.Errorf("% x", got)
	}
	var after bpf.SessionHeader
	if _, err := bpf.DecodeSession(got, &after); err != nil {
		t.Fatal(err)
	}
	s, ok := event.Tail(after.Tail).Section(bpf.SectionUserStack)
	frames, _ := event.AppendUserFrames(nil, s)
	if !ok || !s.Unwound || len(frames) != 1 || frames[0].Addr() != pc {
		t.Errorf("%+v, %+v", s, frames)
	}
	// What has no copy stays as it is.
	h.Tail = nil
	plain := bpf.AppendSession(nil, &h)
	if got, err := u.record(plain); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("% x, %v", got, err)
	}
}
