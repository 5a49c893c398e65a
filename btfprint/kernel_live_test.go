// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

const (
	maxKernelValue = 1 << 14
	maxKernelText  = 1 << 19

	// Flags of bpf_snprintf_btf.
	rawPointers = 1 << 2
	showZeroes  = 1 << 3
)

// snprintf is a BPF program that prints values by the kernel's own printer.
type snprintf struct {
	data, text *ebpf.Map
	prog       *ebpf.Program
}

// load builds the program: its arguments are a type's id and flags, it prints
// the bytes in one map into the other and returns the length.
func load(t *testing.T) *snprintf {
	t.Helper()
	s := &snprintf{}
	var err error
	for _, m := range []struct {
		to   **ebpf.Map
		size uint32
	}{{&s.data, maxKernelValue}, {&s.text, maxKernelText}} {
		*m.to, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: m.size, MaxEntries: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*m.to).Close() })
	}
	lookUp := func(m *ebpf.Map) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
		}
	}
	ins := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 8, asm.DWord),
	}
	ins = append(ins, lookUp(s.data)...)
	ins = append(ins, asm.Mov.Reg(asm.R9, asm.R0))
	ins = append(ins, lookUp(s.text)...)
	ins = append(ins,
		// struct btf_ptr { void *ptr; __u32 type_id; __u32 flags; }
		asm.StoreMem(asm.RFP, -24, asm.R9, asm.DWord),
		asm.StoreMem(asm.RFP, -16, asm.R7, asm.Word),
		asm.StoreImm(asm.RFP, -12, 0, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, maxKernelText),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -24),
		asm.Mov.Imm(asm.R4, 16),
		asm.Mov.Reg(asm.R5, asm.R8),
		asm.FnSnprintfBtf.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"),
		asm.Return(),
	)
	s.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: ins, License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.prog.Close() })
	return s
}

// print has the kernel print a value. It reports false if the text is too long.
func (s *snprintf) print(t *testing.T, id btf.TypeID, raw []byte, flags uint64) (string, bool) {
	t.Helper()
	value := make([]byte, maxKernelValue)
	copy(value, raw)
	if err := s.data.Put(uint32(0), value); err != nil {
		t.Fatal(err)
	}
	args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(id)), flags)
	ret, err := s.prog.Run(&ebpf.RunOptions{Context: args})
	if err != nil {
		t.Fatal(err)
	}
	if int32(ret) < 0 {
		t.Fatalf("type %d: bpf_snprintf_btf returned %d", id, int32(ret))
	}
	if ret >= maxKernelText {
		return "", false
	}
	text := make([]byte, maxKernelText)
	if err := s.text.Lookup(uint32(0), text); err != nil {
		t.Fatal(err)
	}
	return string(text[:bytes.IndexByte(text, 0)]), true
}

// faults are those of this kernel's printer. Whether it names void is seen from
// how it prints a pointer to void.
func (s *snprintf) faults(t *testing.T, spec *btf.Spec) kernelFaults {
	t.Helper()
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		p, ok := typ.(*btf.Pointer)
		if !ok || !isVoid(p.Target) {
			continue
		}
		id, err := spec.TypeID(p)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := s.print(t, id, []byte{1}, rawPointers)
		if strings.HasPrefix(text, "(void *)") {
			return allKernelFaults &^ namelessVoid
		}
		return allKernelFaults
	}
	t.Fatal("the kernel's types have no void *")
	return 0
}

// TestLiveKernelText compares with bpf_snprintf_btf, through the model: the
// model with the kernel's faults equals the kernel, without them the Printer.
func TestLiveKernelText(t *testing.T) {
	guest.Require(t)
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	s := load(t)
	ids, faults := composites(t, spec), s.faults(t, spec)
	for _, tt := range []struct {
		name   string
		flags  uint64
		zeroes bool
	}{
		{"default", rawPointers, false},
		{"zeroes", rawPointers | showZeroes, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var equal, long, bad int
			for _, id := range ids {
				typ, err := spec.TypeByID(id)
				if err != nil {
					t.Fatal(err)
				}
				if hasFloat(typ) {
					continue // the kernel cannot print them
				}
				raw := testBytes(id, sizeof(typ), true)
				theirs, ok := s.print(t, id, raw, tt.flags)
				if !ok {
					long++
					continue
				}
				like := kernelModel{faults: faults, zeroes: tt.zeroes}
				if got := like.run(typ, raw); got != theirs {
					if bad++; bad <= 5 {
						t.Errorf("type %d %v: the model is not the kernel: %s", id, typ, firstDifference(got, theirs))
					}
				}
				if err := compareKernelModel(typ, raw, tt.zeroes); err != nil {
					bad++
					t.Errorf("type %d %v: %v", id, typ, err)
				}
				equal++
			}
			t.Logf("%d types, %d texts too long for the kernel's buffer, %d wrong", equal, long, bad)
		})
	}
}

// compareKernelModel compares the model without faults with the Printer.
func compareKernelModel(typ btf.Type, raw []byte, zeroes bool) error {
	right := kernelModel{zeroes: zeroes}
	want := right.run(typ, raw)
	p, err := Compile(typ, binary.LittleEndian)
	if err != nil {
		return err
	}
	o := ValueOptions{Plain: true, Indent: " ", ShowZeroes: zeroes}
	if got := string(p.AppendValue(nil, raw, &o)); got != want {
		return fmt.Errorf("the Printer is not the model without faults: %s", firstDifference(got, want))
	}
	return nil
}
