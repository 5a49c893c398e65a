// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestUserStack: the stack of the process comes last in a record, behind off-CPU times if there are any.
func TestUserStack(t *testing.T) {
	head := bpf.SessionHeader{Start: 100, End: 200, PID: 7, TID: 8, CPU: 3, Kind: bpf.SessionEnd, Inner: bpf.Inner{PID: 5, TID: 6}}
	copy(head.Comm[:], "task")
	with := head
	section := bpf.Section{Kind: bpf.SectionUserStack, Data: words(0x1000, 0x2000)}
	with.Tail = bpf.AppendSection(nil, &section)
	calls := []bpf.SessionCall{{Func: 0, Entry: 100, Duration: 100, Flags: bpf.CallFinished}}
	for _, c := range []struct {
		name   string
		record []byte
		want   []byte
	}{
		{"at the end", append(record(with, nil, calls, 0xa), with.Tail...), with.Tail},
		{"behind off-CPU times", append(recordOff(with, nil, calls, 40, 40), with.Tail...), with.Tail},
		{"none", record(head, nil, calls, 0xa), nil},
		{"none, and off-CPU times", recordOff(head, nil, calls, 40, 40), nil},
	} {
		d := Decoder{Plan: decoderPlan()}
		s, err := d.Decode(c.record)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		clear(c.record) // which is the reader's
		switch {
		case c.want == nil && s.User != nil, c.want != nil && (s.User == nil || !bytes.Equal(s.User.Tail, c.want)):
			t.Errorf("%s: %+v", c.name, s.User)
		case c.want != nil && (s.User.PID != 7 || s.User.TID != 8 || s.User.Time != 200 || s.User.CPU != 3 || s.User.Inner != head.Inner || s.User.Comm != head.Comm):
			t.Errorf("%s: of %+v", c.name, s.User.Event)
		}
		if len(s.Chain.Frames) != 1 || len(s.Chain.Stack) != 1 {
			t.Errorf("%s: %+v", c.name, s.Chain)
		}
	}
	whole := append(record(with, nil, calls, 0xa), with.Tail...)
	for n := len(whole) - len(with.Tail) + 1; n < len(whole); n++ {
		if _, err := (&Decoder{Plan: decoderPlan()}).Decode(whole[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken", n, len(whole))
		}
	}
}
