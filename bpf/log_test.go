// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// encode writes a struct of the engine as the compiler of the engine lays it out.
func encode(t *testing.T, v any, more ...byte) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, more...)
}

// TestLogLayout decodes entries that are encoded by the structs that bpf2go has generated.
func TestLogLayout(t *testing.T) {
	head := func(kind engineLogKind, size uint16) engineLogHead {
		return engineLogHead{Kind: uint8(kind), Depth: 3, Size: size, Func: 0x123456 | 0x29<<24}
	}
	for _, c := range []struct {
		raw  []byte
		want Logged
	}{
		{encode(t, engineLogEntry{Head: head(engineLogKindLOG_ENTRY, 16), Time: 7}, 1, 2, 3), Logged{Kind: LogEntry, Size: 16, Time: 7}},
		{encode(t, engineLogExit{Head: head(engineLogKindLOG_EXIT, 32), Time: 7, Duration: 8, Result: 9}),
			Logged{Kind: LogExit, Size: 32, Time: 7, Duration: 8, Result: 9}},
		{encode(t, engineLogEntryOff{Head: head(engineLogKindLOG_ENTRY, 24), Time: 7, OffSum: 8}), Logged{Kind: LogEntry, Size: 24, Time: 7, OffSum: 8}},
		{encode(t, engineLogExitOff{Head: head(engineLogKindLOG_EXIT, 48), Time: 7, Duration: 8, Result: 9, OffSum: 10, Off: 11}),
			Logged{Kind: LogExit, Size: 48, Time: 7, Duration: 8, Result: 9, OffSum: 10, OffCPU: 11}},
		{encode(t, head(engineLogKindLOG_PROBE, 10), 4, 5, 6), Logged{Kind: LogProbe, Size: 10}},
	} {
		c.want.Depth, c.want.Func, c.want.Flags = 3, 0x123456, CallFinished|CallHidden|CallJumped
		c.want.Data = c.raw[8:c.want.Size]
		got, err := DecodeLog(c.raw)
		if err != nil {
			t.Errorf("%x: %v", c.raw, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%x: %s", c.raw, d)
		}
		for n := range c.want.Size {
			if _, err := DecodeLog(c.raw[:n]); err == nil {
				t.Errorf("the first %d bytes of %x are an entry", n, c.raw)
			}
		}
	}
	if _, err := DecodeLog(encode(t, head(engineLogKindLOG_EXIT, 24), make([]byte, 16)...)); err == nil {
		t.Error("a return without a result is an entry")
	}
	if _, err := DecodeLog(encode(t, engineLogHead{Kind: 3, Depth: uint8(MaxDepth) + 1, Size: 8})); err == nil {
		t.Error("an entry is below more calls than there can be")
	}
}

func TestTargetLayout(t *testing.T) {
	raw := encode(t, engineArgBytes{Size: 3, Target: 5}, 'a', 'b', 'c', 0, 0, 0, 0, 0, 'x')
	got, rest, err := DecodeTarget(raw)
	if err != nil || got.Index != 5 || got.Fault || string(got.Data) != "abc" || string(rest) != "x" {
		t.Errorf("%+v, then %q, %v", got, rest, err)
	}
	if got, _, err = DecodeTarget(encode(t, engineArgBytes{Flags: 1})); err != nil || !got.Fault || len(got.Data) > 0 {
		t.Errorf("unreadable: %+v, %v", got, err)
	}
	for n := range 8 + 3 {
		if _, _, err := DecodeTarget(raw[:n]); err == nil {
			t.Errorf("%d bytes are a target", n)
		}
	}
}

// TestBranchLayout and TestLostLayout do the same for a branch and a mark.
func TestBranchLayout(t *testing.T) {
	from, to, flags := DecodeBranch(encode(t, struct{ From, To, Flags uint64 }{1, 2, 3})) // as in linux/perf_event.h
	if from != 1 || to != 2 || flags != 3 {
		t.Errorf("from %d to %d, flags %d", from, to, flags)
	}
}

func TestLostLayout(t *testing.T) {
	raw := encode(t, engineLost{Event: engineEvent{Kind: uint8(KindLost), Probe: uint32(LostStash)}, Count: 77})
	if !IsLost(raw) || IsLost(raw[:len(raw)-1]) {
		t.Error("a mark is not known by its length and kind")
	}
	session := engineSessionRecord{LogBase: uint32(KindLost) << 16} // where events have their kind
	if at := unsafe.Offsetof(engineEvent{}.Kind); encode(t, session)[at] != byte(KindLost) || IsLost(encode(t, session)) {
		t.Error("a session is taken for a mark")
	}
	var e Event
	data, err := DecodeEvent(raw, &e)
	if err != nil {
		t.Fatal(err)
	}
	if cause, n, err := DecodeLost(&e, data); cause != LostStash || n != 77 || err != nil {
		t.Errorf("%d lost by cause %d, %v", n, cause, err)
	}
}
