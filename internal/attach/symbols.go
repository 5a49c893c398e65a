// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// symbolIterator is what the kernel calls its iterator over symbols (Linux 6.0).
const symbolIterator = "ksym"

// SearchSymbols returns a search that a program of the kernel's iterator over
// symbols does. The kernel prints what begins as asked only: printing a symbol takes
// it longer than all else that is done with one.
func SearchSymbols(view *kernel.View) kernel.SymbolSearch {
	return func(beginnings []string) (io.ReadCloser, error) {
		types, err := view.BTF()
		if err != nil {
			return nil, err
		}
		insns, err := symbolProgram(types, beginnings)
		if err != nil {
			return nil, err
		}
		spec := &ebpf.ProgramSpec{Name: symbolIterator, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: symbolIterator,
			Instructions: insns, License: "GPL"}
		prog, err := running{}.loadProgram(spec, ebpf.CollectionOptions{Cache: view.TypeCache()})
		if err != nil {
			return nil, explain(err)
		}
		defer prog.Close()
		return prog.iterate()
	}
}

// symbolProgram returns a program that prints a line as /proc/kallsyms has it of each
// symbol whose name begins with one of some texts, as far as the first 8 bytes tell.
func symbolProgram(types *btf.Spec, beginnings []string) (asm.Instructions, error) {
	at := offsets{types: types}
	meta, ksym := at.of("bpf_iter__ksym", "meta"), at.of("bpf_iter__ksym", "ksym")
	seq := at.of("bpf_iter_meta", "seq")
	value, kind, name := at.of("kallsym_iter", "value"), at.of("kallsym_iter", "type"), at.of("kallsym_iter", "name")
	module, shown, exported := at.of("kallsym_iter", "module_name"), at.of("kallsym_iter", "show_value"), at.of("kallsym_iter", "exported")
	if at.err != nil {
		return nil, at.err
	}
	const (
		context, symbol, begin = asm.R6, asm.R7, asm.R8
		values, format         = -32, -56
	)
	insns := asm.Instructions{
		asm.Mov.Reg(context, asm.R1),
		asm.LoadMem(symbol, context, ksym, asm.DWord),
		asm.JEq.Imm(symbol, 0, "end"),
		asm.LoadMem(begin, symbol, name, asm.DWord),
	}
	for _, text := range beginnings {
		var bytes [8]byte
		n := copy(bytes[:], text)
		insns = append(insns, asm.Mov.Reg(asm.R1, begin))
		if left := int32(8 * (8 - n)); left != 0 {
			insns = append(insns, asm.LSh.Imm(asm.R1, left), asm.RSh.Imm(asm.R1, left))
		}
		insns = append(insns, asm.LoadImm(asm.R2, int64(binary.LittleEndian.Uint64(bytes[:])), asm.DWord), asm.JEq.Reg(asm.R1, asm.R2, "print"))
	}
	store := func(at int16, text string) {
		for i := 0; i < len(text); i += 8 {
			var bytes [8]byte
			copy(bytes[:], text[i:])
			insns = append(insns, asm.LoadImm(asm.R1, int64(binary.LittleEndian.Uint64(bytes[:])), asm.DWord), asm.StoreMem(asm.RFP, at+int16(i), asm.R1, asm.DWord))
		}
	}
	const plain, ofModule = "%lx %c %s\n\x00", "%lx %c %s\t[%s]\n\x00"
	insns = append(insns,
		asm.Ja.Label("end"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("print"),
		asm.LoadMem(asm.R2, symbol, shown, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "hidden"),
		asm.LoadMem(asm.R1, symbol, value, asm.DWord),
		asm.StoreMem(asm.RFP, values, asm.R1, asm.DWord).WithSymbol("hidden"),
		asm.LoadMem(asm.R1, symbol, kind, asm.Byte),
		asm.StoreMem(asm.RFP, values+8, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, symbol), asm.Add.Imm(asm.R1, int32(name)),
		asm.StoreMem(asm.RFP, values+16, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, symbol), asm.Add.Imm(asm.R1, int32(module)),
		asm.StoreMem(asm.RFP, values+24, asm.R1, asm.DWord),
		asm.LoadMem(asm.R9, symbol, module, asm.Byte),
		asm.Mov.Imm(asm.R3, int32(len(plain))), asm.Mov.Imm(asm.R5, 24),
	)
	store(format, plain)
	insns = append(insns, asm.JEq.Imm(asm.R9, 0, "call"), asm.Mov.Imm(asm.R3, int32(len(ofModule))), asm.Mov.Imm(asm.R5, 32))
	store(format, ofModule)
	// Of a module a capital letter says that the symbol is exported.
	insns = append(insns,
		asm.LoadMem(asm.R1, symbol, kind, asm.Byte), asm.Or.Imm(asm.R1, 0x20),
		asm.LoadMem(asm.R2, symbol, exported, asm.Word), asm.JEq.Imm(asm.R2, 0, "kind"),
		asm.And.Imm(asm.R1, 0xdf),
		asm.StoreMem(asm.RFP, values+8, asm.R1, asm.DWord).WithSymbol("kind"))
	return append(insns,
		asm.LoadMem(asm.R1, context, meta, asm.DWord).WithSymbol("call"),
		asm.LoadMem(asm.R1, asm.R1, seq, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, format),
		asm.Mov.Reg(asm.R4, asm.RFP), asm.Add.Imm(asm.R4, values),
		asm.FnSeqPrintf.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	), nil
}

// offsets finds members of structs; err is the first failure.
type offsets struct {
	types *btf.Spec
	err   error
}

func (o *offsets) of(name, member string) int16 {
	var s *btf.Struct
	if err := o.types.TypeByName(name, &s); err != nil {
		o.err = errors.Join(o.err, err)
		return 0
	}
	if at, ok := codegen.MemberOffset(s, member); ok {
		return int16(at)
	}
	o.err = errors.Join(o.err, fmt.Errorf("struct %s has no member %s", name, member))
	return 0
}
