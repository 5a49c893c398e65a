// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A function of a module is called, traced by fentry with a typed pointer that
// is dereferenced, and returns what it was told to.
func TestLiveExprModule(t *testing.T) {
	guest.Require(t)
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	object := &btf.Struct{Name: "kmod_object", Size: 16, Members: []btf.Member{
		{Name: "a", Type: long}, {Name: "b", Type: long, Offset: 64}}}
	m := &Module{Name: "kmod_test", Funcs: []*btf.Func{{Name: "kmod_test_f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{
		Return: long, Params: []btf.FuncParam{{Name: "p", Type: &btf.Pointer{Target: object}}, {Name: "n", Type: long}}}}}}
	if err := errors.Join(m.Load(), m.Unload(), m.Load()); err != nil {
		t.Fatal(err)
	}
	addrs, err := m.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	store := func(slot int32, load ...asm.Instruction) (insns asm.Instructions) {
		insns = append(insns, load...)
		return append(insns, asm.StoreMem(asm.RFP, -8, asm.R3, asm.DWord), asm.StoreImm(asm.RFP, -12, int64(slot), asm.Word),
			asm.LoadMapPtr(asm.R1, seen.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -12),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -8), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
	}
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	insns = append(insns, store(0, asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), asm.LoadMem(asm.R3, asm.R3, 8, asm.DWord))...)
	insns = append(insns, store(1, asm.LoadMem(asm.R3, asm.R6, 8, asm.DWord))...)
	insns = append(insns, store(2, asm.LoadMem(asm.R3, asm.R6, 16, asm.DWord))...)
	insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit,
		AttachTo: "kmod_test_f", License: "GPL", Instructions: insns})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer prog.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mem, err := NewMemory(os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	binary.LittleEndian.PutUint64(mem.Bytes[8:], 0xfeedface00000001)
	c := Call{Func: addrs[0], Args: [10]uint64{mem.Addr, 0x123456789abcdef}, Result: 77, Flip: mem.Addr + 8, Mask: 0x10}
	f, err := os.OpenFile(m.CallFile(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(c.Append(nil)); err != nil {
		t.Fatal(err)
	}
	var got [3]uint64
	for i := range got {
		if err := seen.Lookup(uint32(i), &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	// At return the word has been changed.
	want := [3]uint64{0xfeedface00000011, 0x123456789abcdef, 77}
	if got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}
