// SPDX-License-Identifier: Apache-2.0

package progs

import "slices"

// A Program is a loaded BPF program.
type Program struct {
	ID    uint32
	Name  string // the first 15 bytes of the name that its loader gave it; may be empty
	Type  uint32 // enum bpf_prog_type
	BTF   uint32 // ID of its types; 0: it was loaded without any
	Jited bool
	// Functions are its own function and its subprograms, in this order.
	Functions []Function
	// Maps are the names of the maps that it uses.
	Maps []string
}

// switchMap is a map of ksnoop's engine, which all of its programs use.
const switchMap = ".data.switch"

// Ksnoop reports whether p is one of ksnoop's programs, of this or another process.
func (p *Program) Ksnoop() bool { return slices.Contains(p.Maps, switchMap) }

// A Function is one of a program's.
type Function struct {
	Type uint32 // ID of its type in the program's BTF
	Addr uint64 // 0 if the kernel hides addresses
	// Extension is the ID of the program that is called in the function's place; 0: there is none.
	Extension uint32
	Passing
}
