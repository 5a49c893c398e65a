// SPDX-License-Identifier: Apache-2.0

// Package threadctx finds the context records that threads publish as OpenTelemetry's OTEP 4947 describes
// (oteps/profiles/4947-thread-ctx.md of opentelemetry-specification): a program or one of its libraries has the
// thread-local variable otel_thread_ctx_v1 among its dynamic symbols, which points to the record of the span that
// the thread is in.
//
// [Read] reads of an ELF file how its code reaches the variable, and [Variable.Place] of a process what the dynamic
// linker has made of that. Files and processes are anybody's: sizes are bounded, and nothing is believed.
package threadctx

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// variableName is the name of the variable.
const variableName = "otel_thread_ctx_v1"

// Limits on what is read of a file.
const (
	mostNames       = 1 << 26 // bytes of names of dynamic symbols, and of their table
	mostRelocations = 1 << 27 // bytes of all tables together, which may be the same bytes
)

// An access is how code reaches the variable.
type access uint8

const (
	direct     access = iota // its place is known when the program is linked: local-exec
	slot                     // a slot has its distance from the thread pointer: initial-exec
	index                    // two slots have the number of its module and its offset there: global dynamic
	descriptor               // the second word of a descriptor has its distance or where both numbers are: TLSDESC
)

// A Variable is the one of a file. Addresses are as linked.
type Variable struct {
	access access
	slot   uint64
	offset int64
	above  bool // the program's thread-local storage is above the thread pointer
}

// A File is what is read of an ELF file.
type File struct {
	// Variable is nil if the file does not have the variable.
	Variable *Variable
	// Loads are its segments.
	Loads []elf.ProgHeader
	// Interpreter is the dynamic linker that a program asks for; "" if it asks for none.
	Interpreter string
}

// Read reads an ELF file. What is no ELF file of 64 bits has no variable.
func Read(r io.ReaderAt) (*File, error) {
	file := &File{}
	f, err := elfhead.Open(r)
	if err != nil || f.Class != elf.ELFCLASS64 {
		return file, nil
	}
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_LOAD:
			file.Loads = append(file.Loads, p.ProgHeader)
		case p.Type == elf.PT_INTERP && p.Filesz < 4096:
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err == nil {
				file.Interpreter = string(bytes.TrimRight(name, "\x00"))
			}
		}
	}
	number, symbol, err := find(f)
	if err != nil || symbol == nil {
		return file, err
	}
	if elf.ST_TYPE(symbol.Info) != elf.STT_TLS || symbol.Size != 8 {
		return file, fmt.Errorf("%s is no thread-local pointer", variableName)
	}
	file.Variable, err = reached(f, file, number, symbol)
	return file, err
}

// find returns the variable, if the file defines it, and its number in the table of dynamic symbols.
func find(f *elf.File) (number uint32, _ *elf.Symbol, err error) {
	table := f.SectionByType(elf.SHT_DYNSYM)
	if table == nil || int(table.Link) >= len(f.Sections) {
		return 0, nil, nil
	}
	names := f.Sections[table.Link]
	if names.Size > mostNames || table.Size > mostNames {
		return 0, nil, fmt.Errorf("its dynamic symbols are %d bytes and their names %d; the most are %d", table.Size, names.Size, mostNames)
	}
	text, err := names.Data()
	if err != nil || !bytes.Contains(text, []byte(variableName+"\x00")) {
		return 0, nil, nil // most files end here
	}
	symbols, err := elfhead.Symbols(f, elf.SHT_DYNSYM, mostNames)
	if err != nil {
		return 0, nil, fmt.Errorf("its dynamic symbols: %w", err)
	}
	for i := range symbols {
		if s := &symbols[i]; s.Name == variableName && s.Section != elf.SHN_UNDEF {
			return uint32(i + 1), s, nil // the table has an empty symbol first
		}
	}
	return 0, nil, nil
}

// A relocation is what the dynamic linker puts somewhere.
type relocation struct {
	at     uint64
	kind   uint32
	symbol uint32
}

// kinds are the relocations of thread-local variables of an architecture.
type kinds struct{ module, distance, descriptor uint32 }

var kindsOf = map[elf.Machine]kinds{
	elf.EM_X86_64:  {uint32(elf.R_X86_64_DTPMOD64), uint32(elf.R_X86_64_TPOFF64), uint32(elf.R_X86_64_TLSDESC)},
	elf.EM_AARCH64: {uint32(elf.R_AARCH64_TLS_DTPMOD64), uint32(elf.R_AARCH64_TLS_TPREL64), uint32(elf.R_AARCH64_TLSDESC)},
}

// reached finds out how the code of a file reaches its variable.
func reached(f *elf.File, file *File, number uint32, symbol *elf.Symbol) (*Variable, error) {
	of, ok := kindsOf[f.Machine]
	if !ok {
		return nil, fmt.Errorf("%s of %s is not known", variableName, f.Machine)
	}
	if f.Type == elf.ET_EXEC || file.Interpreter != "" || isPIE(f) {
		return linked(f, symbol)
	}
	found := map[access]*Variable{}
	err := relocations(f, func(r relocation) {
		if r.symbol != number {
			return
		}
		var v *Variable
		switch r.kind {
		case of.descriptor:
			v = &Variable{access: descriptor, slot: r.at, above: f.Machine == elf.EM_AARCH64}
		case of.distance:
			v = &Variable{access: slot, slot: r.at}
		case of.module:
			v = &Variable{access: index, slot: r.at}
		default:
			return
		}
		if found[v.access] == nil {
			found[v.access] = v
		}
	})
	if err != nil {
		return nil, err
	}
	for _, a := range []access{descriptor, index, slot} {
		if v := found[a]; v != nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("it has %s, and no code that reaches it", variableName)
}

// isPIE reports whether a file that is linked as a library says that it is a program. A static one has no interpreter.
func isPIE(f *elf.File) bool {
	flags, err := f.DynValue(elf.DT_FLAGS_1)
	return err == nil && len(flags) > 0 && elf.DynFlag1(flags[0])&elf.DF_1_PIE != 0
}

// linked returns where a program has its variable: the thread-local storage of the program itself is next to where the
// thread pointer points to.
func linked(f *elf.File, symbol *elf.Symbol) (*Variable, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_TLS {
			continue
		}
		mask := max(p.Align, 1) - 1
		if f.Machine == elf.EM_AARCH64 { // above the pointer, and two words
			const head = 16
			return &Variable{offset: int64(symbol.Value + head + (p.Vaddr-head)&mask)}, nil
		}
		return &Variable{offset: int64(symbol.Value - p.Memsz - (-p.Vaddr-p.Memsz)&mask)}, nil
	}
	return nil, errors.New("it has no thread-local storage")
}

// relocations calls each with those of the dynamic linker.
func relocations(f *elf.File, each func(relocation)) error {
	const size = 24
	sum := uint64(0)
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if s.Size > mostRelocations-sum {
			return fmt.Errorf("its relocations are more than %d bytes", mostRelocations)
		}
		sum += s.Size
		raw, err := s.Data()
		if err != nil {
			return fmt.Errorf("its relocations: %w", err)
		}
		for ; len(raw) >= size; raw = raw[size:] {
			info := f.ByteOrder.Uint64(raw[8:])
			each(relocation{f.ByteOrder.Uint64(raw), elf.R_TYPE64(info), elf.R_SYM64(info)})
		}
	}
	return nil
}

// A Place is where the threads of a process have the variable.
type Place struct {
	// Module is the number of the module with the variable, in whose block Offset is; 0: Offset is from the
	// thread pointer.
	Module uint64
	Offset int64
}

// errNotYet says that the dynamic linker is at work.
var errNotYet = errors.New("it is not linked yet")

// Place returns where the variable is in a process with this memory, whose addresses are as far from those as linked as
// bias says.
func (v *Variable) Place(memory io.ReaderAt, bias uint64) (Place, error) {
	switch v.access {
	case direct:
		return Place{Offset: v.offset}, nil
	case slot:
		n, err := words(memory, bias+v.slot, 1)
		if err != nil || n[0] == 0 {
			return Place{}, notYet(err)
		}
		return Place{Offset: int64(n[0])}, nil
	case index:
		return indexed(memory, bias+v.slot)
	default:
		return v.described(memory, bias+v.slot+8)
	}
}

// described reads the second word of a descriptor: the distance, if the variable is in static storage, or else the
// address of both numbers. That is low in a program that is not PIE, whose heap is next to it.
func (v *Variable) described(memory io.ReaderAt, at uint64) (Place, error) {
	n, err := words(memory, at, 1)
	if err != nil || n[0] == 0 {
		return Place{}, notYet(err)
	}
	distance := Place{Offset: int64(n[0])}
	if distance.Offset < 0 {
		return distance, nil
	}
	place, err := indexed(memory, n[0])
	if err != nil && v.above && n[0] < 1<<32 { // no memory is there, and no storage is so large
		return distance, nil
	}
	return place, err
}

// indexed reads the number of a module and an offset.
func indexed(memory io.ReaderAt, at uint64) (Place, error) {
	n, err := words(memory, at, 2)
	if err != nil || n[0] == 0 {
		return Place{}, notYet(err)
	}
	return Place{n[0], int64(n[1])}, nil
}

func notYet(err error) error {
	if err == nil {
		return errNotYet
	}
	return err
}

// words reads some words of a process.
func words(memory io.ReaderAt, at uint64, count int) ([]uint64, error) {
	raw := make([]byte, 8*count)
	if at >= 1<<63 {
		return nil, fmt.Errorf("%#x is no address", at)
	}
	if _, err := memory.ReadAt(raw, int64(at)); err != nil {
		return nil, fmt.Errorf("its memory: %w", err)
	}
	n := make([]uint64, count)
	for i := range n {
		n[i] = binary.NativeEndian.Uint64(raw[8*i:])
	}
	return n, nil
}
