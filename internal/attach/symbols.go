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

// SearchSymbols returns a search for symbols of the running kernel.
func SearchSymbols(view *kernel.View) kernel.SymbolSearch { return symbolSearch{view} }

type symbolSearch struct{ view *kernel.View }

func (s symbolSearch) Sole(names []string) ([]kernel.Symbol, error) {
	return soleSymbols(s.view, names)
}

// Beginning has a program of the kernel's iterator over symbols search. The kernel prints
// what begins as asked only: printing a symbol takes it longer than all else that is done
// with one.
func (s symbolSearch) Beginning(texts []string) (io.ReadCloser, error) {
	return s.iterate(func(types *btf.Spec) (asm.Instructions, error) { return symbolProgram(types, texts) })
}

// All has such a program write each symbol.
func (s symbolSearch) All() (io.ReadCloser, error) { return s.iterate(listProgram) }

func (s symbolSearch) iterate(program func(*btf.Spec) (asm.Instructions, error)) (io.ReadCloser, error) {
	types, err := s.view.BTF()
	if err != nil {
		return nil, err
	}
	insns, err := program(types)
	if err != nil {
		return nil, err
	}
	spec := &ebpf.ProgramSpec{Name: symbolIterator, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: symbolIterator,
		Instructions: insns, License: "GPL"}
	prog, err := running{}.loadProgram(spec, ebpf.CollectionOptions{Cache: s.view.TypeCache()})
	if err != nil {
		return nil, explain(err)
	}
	defer prog.Close()
	return prog.iterate()
}

// listProgram returns a program that writes each symbol as kernel.SymbolSearch has it.
func listProgram(types *btf.Spec) (asm.Instructions, error) {
	at, err := findSymbolOffsets(types)
	if err != nil {
		return nil, err
	}
	const (
		symbol, file = asm.R6, asm.R7
		moduleRoom   = 64
		moduleAt     = -moduleRoom
		nameAt       = moduleAt - kernel.ListedName
		kindAt       = nameAt - 1
		recordAt     = kindAt - 8
	)
	// write writes as many bytes as R0 says, and some before them.
	write := func(from, before int16) asm.Instructions {
		return asm.Instructions{
			asm.JSLE.Imm(asm.R0, 0, "end"), // it cannot be
			asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, int32(before)),
			asm.Mov.Reg(asm.R1, file),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(from)),
			asm.FnSeqWrite.Call(),
		}
	}
	read := func(to, room, from int16) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)),
			asm.Mov.Imm(asm.R2, int32(room)),
			asm.Mov.Reg(asm.R3, symbol), asm.Add.Imm(asm.R3, int32(from)),
			asm.FnProbeReadKernelStr.Call(),
		}
	}
	insns := asm.Instructions{
		asm.LoadMem(symbol, asm.R1, at.ksym, asm.DWord),
		asm.JEq.Imm(symbol, 0, "end"),
		asm.LoadMem(file, asm.R1, at.meta, asm.DWord),
		asm.LoadMem(file, file, at.seq, asm.DWord),
		asm.LoadMem(asm.R2, symbol, at.name, asm.Byte),
		asm.JEq.Imm(asm.R2, 0, "end"), // /proc/kallsyms leaves symbols without a name out, too
		asm.Mov.Imm(asm.R1, 0),
		asm.LoadMem(asm.R2, symbol, at.shown, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "hidden"),
		asm.LoadMem(asm.R1, symbol, at.value, asm.DWord),
		asm.StoreMem(asm.RFP, recordAt, asm.R1, asm.DWord).WithSymbol("hidden"),
		asm.LoadMem(asm.R1, symbol, at.kind, asm.Byte),
		asm.LoadMem(asm.R8, symbol, at.module, asm.Byte),
		asm.JEq.Imm(asm.R8, 0, "kind"),
		// Of a module a capital letter says that the symbol is exported.
		asm.Or.Imm(asm.R1, 0x20|kernel.ListedModule),
		asm.LoadMem(asm.R2, symbol, at.exported, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "kind"),
		asm.And.Imm(asm.R1, 0xdf),
		asm.StoreMem(asm.RFP, kindAt, asm.R1, asm.Byte).WithSymbol("kind"),
	}
	insns = append(insns, read(nameAt, kernel.ListedName, at.name)...)
	insns = append(insns, write(recordAt, nameAt-recordAt)...)
	insns = append(insns, asm.JEq.Imm(asm.R8, 0, "end"))
	insns = append(insns, read(moduleAt, moduleRoom, at.module)...)
	insns = append(insns, write(moduleAt, 0)...)
	return append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()), nil
}

// symbolProgram returns a program that prints a line as /proc/kallsyms has it of each
// symbol whose name begins with one of some texts, as far as the first 8 bytes tell.
func symbolProgram(types *btf.Spec, beginnings []string) (asm.Instructions, error) {
	at, err := findSymbolOffsets(types)
	if err != nil {
		return nil, err
	}
	const (
		context, symbol, begin = asm.R6, asm.R7, asm.R8
		values, format         = -32, -56
	)
	insns := asm.Instructions{
		asm.Mov.Reg(context, asm.R1),
		asm.LoadMem(symbol, context, at.ksym, asm.DWord),
		asm.JEq.Imm(symbol, 0, "end"),
		asm.LoadMem(begin, symbol, at.name, asm.DWord),
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
		asm.LoadMem(asm.R2, symbol, at.shown, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "hidden"),
		asm.LoadMem(asm.R1, symbol, at.value, asm.DWord),
		asm.StoreMem(asm.RFP, values, asm.R1, asm.DWord).WithSymbol("hidden"),
		asm.LoadMem(asm.R1, symbol, at.kind, asm.Byte),
		asm.StoreMem(asm.RFP, values+8, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, symbol), asm.Add.Imm(asm.R1, int32(at.name)),
		asm.StoreMem(asm.RFP, values+16, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, symbol), asm.Add.Imm(asm.R1, int32(at.module)),
		asm.StoreMem(asm.RFP, values+24, asm.R1, asm.DWord),
		asm.LoadMem(asm.R9, symbol, at.module, asm.Byte),
		asm.Mov.Imm(asm.R3, int32(len(plain))), asm.Mov.Imm(asm.R5, 24),
	)
	store(format, plain)
	insns = append(insns, asm.JEq.Imm(asm.R9, 0, "call"), asm.Mov.Imm(asm.R3, int32(len(ofModule))), asm.Mov.Imm(asm.R5, 32))
	store(format, ofModule)
	// Of a module a capital letter says that the symbol is exported.
	insns = append(insns,
		asm.LoadMem(asm.R1, symbol, at.kind, asm.Byte), asm.Or.Imm(asm.R1, 0x20),
		asm.LoadMem(asm.R2, symbol, at.exported, asm.Word), asm.JEq.Imm(asm.R2, 0, "kind"),
		asm.And.Imm(asm.R1, 0xdf),
		asm.StoreMem(asm.RFP, values+8, asm.R1, asm.DWord).WithSymbol("kind"))
	return append(insns,
		asm.LoadMem(asm.R1, context, at.meta, asm.DWord).WithSymbol("call"),
		asm.LoadMem(asm.R1, asm.R1, at.seq, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, format),
		asm.Mov.Reg(asm.R4, asm.RFP), asm.Add.Imm(asm.R4, values),
		asm.FnSeqPrintf.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	), nil
}

// symbolOffsets are where members lie in what the iterator hands to a program.
type symbolOffsets struct {
	meta, ksym, seq                            int16
	value, kind, name, module, shown, exported int16
}

func findSymbolOffsets(types *btf.Spec) (symbolOffsets, error) {
	at := offsets{types: types}
	const symbol = "kallsym_iter"
	found := symbolOffsets{
		meta: at.of("bpf_iter__ksym", "meta"), ksym: at.of("bpf_iter__ksym", "ksym"), seq: at.of("bpf_iter_meta", "seq"),
		value: at.of(symbol, "value"), kind: at.of(symbol, "type"), name: at.of(symbol, "name"),
		module: at.of(symbol, "module_name"), shown: at.of(symbol, "show_value"), exported: at.of(symbol, "exported"),
	}
	return found, at.err
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
