// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// countsSymbols is since when the kernel counts the symbols of a name, of vmlinux and of the
// modules, before it takes the name for a kprobe.
var countsSymbols = version{6, 8}

// Code of vmlinux lies between these symbols, that for boot only elsewhere.
const textBegin, textEnd = "_stext", "_etext"

var errNotSole = errors.New("not the only symbol of its name, or no code")

// soleSymbols returns the symbols of some names, each of which must be the only one of its
// name, and code of vmlinux. To look names up in the kernel's index of names takes it a
// thousandth of what it takes to go through all symbols.
func soleSymbols(view *kernel.View, names []string) ([]kernel.Symbol, error) {
	if !view.AtLeast(countsSymbols.major, countsSymbols.minor) {
		return nil, fmt.Errorf("counting symbols: %w", ebpf.ErrNotSupported)
	}
	kind, err := kprobeEvents()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := severalOf(kind, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	addrs, err := lookupSymbols(append([]string{textBegin, textEnd}, names...))
	if err != nil {
		return nil, err
	}
	begin, end, addrs := addrs[0], addrs[1], addrs[2:]
	symbols := make([]kernel.Symbol, len(names))
	for i, name := range names {
		if addrs[i] < begin || addrs[i] >= end {
			return nil, fmt.Errorf("%s: %w", name, errNotSole)
		}
		symbols[i] = kernel.Symbol{Name: name, Addr: addrs[i]}
	}
	return symbols, nil
}

// severalOf fails if a name has several symbols. The kernel says so of a name for a kprobe,
// before it looks at the place, which is beyond all code here: so nothing is probed.
func severalOf(kind uint32, name string) error {
	text := append([]byte(name), 0)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&text[0])
	const beyond = 1<<31 - 1
	attr := unix.PerfEventAttr{Type: kind, Ext1: uint64(uintptr(unsafe.Pointer(&text[0]))), Ext2: beyond, Size: unix.PERF_ATTR_SIZE_VER1}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case err == nil:
		return errors.Join(errNotSole, unix.Close(fd)) // a place was found
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return nil
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return errNotSole
	}
	return err
}

// lookupSymbols returns the addresses of symbols, by a program that runs once.
func lookupSymbols(names []string) ([]uint64, error) {
	const address = -8
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R7, 0)}
	for i, name := range names {
		text := make([]byte, (len(name)+8)&^7) // with a NUL at least
		copy(text, name)
		at := int16(address - len(text))
		for j := 0; j < len(text); j += 8 {
			insns = append(insns, asm.LoadImm(asm.R1, int64(binary.LittleEndian.Uint64(text[j:])), asm.DWord), asm.StoreMem(asm.RFP, at+int16(j), asm.R1, asm.DWord))
		}
		insns = append(insns,
			asm.StoreMem(asm.RFP, address, asm.R7, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)),
			asm.Mov.Imm(asm.R2, int32(len(name)+1)),
			asm.Mov.Imm(asm.R3, 0),
			asm.Mov.Reg(asm.R4, asm.RFP), asm.Add.Imm(asm.R4, address),
			asm.FnKallsymsLookupName.Call(),
			asm.JNE.Imm(asm.R0, 0, "end"),
			asm.LoadMem(asm.R1, asm.RFP, address, asm.DWord),
			asm.StoreMem(asm.R6, int16(8*i), asm.R1, asm.DWord))
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return().WithSymbol("end"))
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "symbols", Type: ebpf.Syscall, Flags: unix.BPF_F_SLEEPABLE, Instructions: insns, License: "GPL"})
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	addrs := make([]uint64, len(names))
	code, err := prog.Run(&ebpf.RunOptions{Context: addrs, ContextOut: addrs})
	switch {
	case err != nil:
		return nil, err
	case code != 0:
		return nil, fmt.Errorf("looking up symbols: %w", unix.Errno(-int32(code)))
	}
	return addrs, nil
}
