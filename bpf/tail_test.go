// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
)

// A section's header is what the engine's compiler made of struct section.
func TestSectionLayout(t *testing.T) {
	s := Section{Kind: SectionBranches, Cut: true, All: true, Caller: true, Data: make([]byte, 2*BranchSize)}
	raw := AppendSection(nil, &s)
	var c engineSection
	if _, err := binary.Decode(raw, binary.LittleEndian, &c); err != nil {
		t.Fatal(err)
	}
	want := engineSection{Kind: uint16(engineSectionKindSECTION_BRANCHES), Size: int32(2 * BranchSize),
		Flags: uint16(engineSectionFlagSECTION_CUT | engineSectionFlagSECTION_ALL | engineSectionFlagSECTION_CALLER)}
	if c != want || len(raw) != int(unsafe.Sizeof(c))+2*BranchSize {
		t.Errorf("%+v in %d bytes, want %+v", c, len(raw), want)
	}
}

func TestDecodeSection(t *testing.T) {
	header := func(kind uint16, size int32) []byte {
		b := binary.LittleEndian.AppendUint16(nil, kind)
		return binary.LittleEndian.AppendUint32(append(b, 0, 0), uint32(size))
	}
	for _, c := range []struct {
		name string
		tail []byte
		want Section
		rest int
		ok   bool
	}{
		{"empty stack", header(1, 0), Section{Kind: SectionStack, Data: []byte{}}, 0, true},
		{"no stack", header(2, -14), Section{Kind: SectionUserStack, Errno: 14}, 0, true},
		{"another follows", append(append(header(1, 8), make([]byte, 8)...), header(3, 0)...), Section{Kind: SectionStack, Data: make([]byte, 8)}, 8, true},
		{"cut header", []byte{1, 0, 0}, Section{}, 0, false},
		{"unknown kind", header(9, 0), Section{}, 0, false},
		{"longer than the record", header(1, 16), Section{}, 0, false},
		{"half an address", append(header(1, 4), 1, 2, 3, 4), Section{}, 0, false},
		{"half a branch", append(header(3, 8), make([]byte, 8)...), Section{}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got Section
			rest, err := DecodeSection(c.tail, &got)
			if (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(c.want, got); c.ok && (d != "" || len(rest) != c.rest) {
				t.Errorf("rest %d, want %d; %s", len(rest), c.rest, d)
			}
		})
	}
}

func FuzzDecodeSection(f *testing.F) {
	f.Add(AppendSection(nil, &Section{Kind: SectionStack, Cut: true, Data: make([]byte, 16)}))
	f.Add(AppendSection(nil, &Section{Kind: SectionUserStack, Errno: 14}))
	f.Fuzz(func(t *testing.T, tail []byte) {
		var s, again Section
		rest, err := DecodeSection(tail, &s)
		if err != nil {
			return
		}
		if _, err := DecodeSection(AppendSection(nil, &s), &again); err != nil || !cmp.Equal(s, again) {
			t.Errorf("%+v became %+v: %v", s, again, err)
		}
		if len(s.Data)+len(rest)+sectionSize != len(tail) {
			t.Errorf("%d of %d bytes are lost", len(tail)-len(rest)-len(s.Data), len(tail))
		}
	})
}

// A snapshot is taken with one call, of the helper, and not one jump.
func TestSnapshotHasNoBranches(t *testing.T) {
	insns := AppendSnapshot(nil, asm.R6, asm.R9)
	var calls []int32
	for _, ins := range insns {
		switch ins.OpCode.Class() {
		case asm.JumpClass, asm.Jump32Class:
			if ins.OpCode.JumpOp() != asm.Call {
				t.Errorf("a jump: %v", ins)
			}
			calls = append(calls, int32(ins.Constant))
		}
	}
	if !slices.Equal(calls, []int32{int32(asm.FnGetBranchSnapshot)}) {
		t.Errorf("calls of helpers %v", calls)
	}
}

// The kernel is given the operations that are meant.
func TestAtomicEncoding(t *testing.T) {
	for _, c := range []struct {
		op   asm.AtomicOp
		want byte // as BPF_FETCH | BPF_ADD, BPF_XCHG
	}{{asm.FetchAdd, 0x01}, {asm.Xchg, 0xe1}} {
		var b bytes.Buffer
		if err := (asm.Instructions{atomically(c.op, asm.R1, asm.R2, 8)}).Marshal(&b, binary.LittleEndian); err != nil {
			t.Fatal(err)
		}
		if got := b.Bytes(); got[0] != 0xdb || got[4] != c.want {
			t.Errorf("%v: % x", c.op, got)
		}
	}
}

// The ring of snapshots is indexed with a mask.
func TestSnapshotCount(t *testing.T) {
	if snapshotCount&(snapshotCount-1) != 0 {
		t.Errorf("%d snapshots are no power of two", snapshotCount)
	}
}

// TestUserCopy: behind the registers are the calls whose returns are probed, up to the first without a stack pointer, and
// behind all that there is room for the stack.
func TestUserCopy(t *testing.T) {
	for arch, words := range map[string]int{"amd64": 21, "arm64": 34} { // of struct pt_regs and user_pt_regs
		var data []byte
		for n := range words {
			data = binary.LittleEndian.AppendUint64(data, uint64(n))
		}
		returns := make([]byte, 16*MaxUserReturns)
		for i, v := range []uint64{0x7000, 1, 0x7100, 2, 0, 3, 0x7200, 4} {
			binary.LittleEndian.PutUint64(returns[8*i:], v)
		}
		data = append(append(data, returns...), "the stack"...)
		c, ok := DecodeUserCopy(Section{Kind: SectionUserCopy, Data: data}, arch)
		want := []UserReturn{{0x7000, 1}, {0x7100, 2}}
		if got := c.AppendReturns(nil); !ok || !slices.Equal(got, want) || string(c.Stack) != "the stack" || c.Word(words-1) != uint64(words-1) {
			t.Errorf("%s: %v, %v, %q", arch, ok, got, c.Stack)
		}
		if _, ok := DecodeUserCopy(Section{Kind: SectionUserCopy, Data: data[:len(data)-10]}, arch); ok {
			t.Errorf("%s: a copy that is cut off", arch)
		}
	}
}
