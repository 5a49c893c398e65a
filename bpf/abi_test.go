// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// TestEventLayout holds the encoder to the layout that the compiler of the
// engine gave struct event: bpf2go reads it from the object's BTF.
func TestEventLayout(t *testing.T) {
	e := Event{Time: 0x0102030405060708, EntryTime: 0x1112131415161718, Faults: 1<<63 | 5, Probe: 0x21222324,
		PID: 0x31323334, TID: 0x41424344, CPU: 0x5152, Kind: KindCall, Inner: Inner{PID: 0x61626364, TID: 0x71727374, Ours: true}, Comm: [16]byte{'p', 'i', 'n', 'g'}}
	raw := AppendEvent(nil, &e)
	if len(raw) != EventSize {
		t.Fatalf("%d bytes, struct event has %d", len(raw), EventSize)
	}
	var c engineEvent
	if _, err := binary.Decode(raw, binary.LittleEndian, &c); err != nil {
		t.Fatal(err)
	}
	want := engineEvent{Time: e.Time, EntryTime: e.EntryTime, Faults: e.Faults, Probe: e.Probe, Tgid: e.PID, Tid: e.TID,
		Cpu: e.CPU, Kind: uint8(e.Kind), Flags: 2, InnerTgid: e.Inner.PID, InnerTid: e.Inner.TID, Comm: [16]int8{'p', 'i', 'n', 'g'}}
	if c != want {
		t.Errorf("as struct event: %+v, want %+v", c, want)
	}
	var back Event
	data, err := DecodeEvent(append(raw, 1, 2, 3), &back)
	if err != nil || !bytes.Equal(data, []byte{1, 2, 3}) || back != e {
		t.Errorf("decoded %+v, data %v, %v; want %+v", back, data, err, e)
	}
}

func TestDecodeShort(t *testing.T) {
	var e Event
	for n := range EventSize {
		if _, err := DecodeEvent(make([]byte, n), &e); err == nil {
			t.Errorf("%d bytes were taken for a record", n)
		}
	}
}

// TestFrameOffsets compares the offsets that generated code uses with the
// compiler's.
func TestFrameOffsets(t *testing.T) {
	var f engineFrame
	at := func(p unsafe.Pointer) int { return int(uintptr(p) - uintptr(unsafe.Pointer(&f))) }
	got := []int{FrameFaults, FrameEntry, FrameData}
	want := []int{at(unsafe.Pointer(&f.Event.Faults)), at(unsafe.Pointer(&f.Event.EntryTime)), int(unsafe.Sizeof(f))}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add(AppendEvent(nil, &Event{Time: 1, Kind: KindReturn}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Event
		data, err := DecodeEvent(raw, &e)
		if err != nil {
			return
		}
		e2 := Event{}
		again := append(AppendEvent(nil, &e), data...)
		if _, err := DecodeEvent(again, &e2); err != nil || e != e2 {
			t.Errorf("%+v became %+v: %v", e, e2, err)
		}
	})
}

func TestDecodeAllocates(t *testing.T) {
	raw := AppendEvent(nil, &Event{})
	var e Event
	if n := testing.AllocsPerRun(100, func() { _, _ = DecodeEvent(raw, &e) }); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}
