// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A Namespace is the PID namespace that ksnoop is in. The zero value is the initial one.
type Namespace struct {
	Addr  uint64 // of the kernel's struct
	Level uint32 // how far below the initial one it is
}

// Inner has the numbers of a thread and its process in a PID namespace other than the initial one: in
// ksnoop's or, if that is the initial one, in their own. The zero value: there is no such namespace.
type Inner struct {
	PID, TID uint32 // 0: the thread has no number in there
	Ours     bool   // it is ksnoop's namespace
}

// decodeInner reads the numbers of a process and a thread at two offsets of a record.
func decodeInner(raw []byte, pid, tid uintptr, ours bool) Inner {
	le := binary.LittleEndian
	return Inner{PID: le.Uint32(raw[pid:]), TID: le.Uint32(raw[tid:]), Ours: ours}
}

// ProgListPIDs is the program of PIDList.
const ProgListPIDs = engineProgListPids

// PIDList returns the program of an iterator over all tasks. ParsePIDs parses what is read from it.
func PIDList() (*ebpf.CollectionSpec, error) {
	spec, err := engineObject()
	if err != nil {
		return nil, err
	}
	prog := spec.Programs[ProgListPIDs].Copy()
	var insns asm.Instructions
	for _, f := range split(prog.Instructions) {
		insns = append(insns, static(f)...)
	}
	prog.Instructions = insns
	return &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{ProgListPIDs: prog}, Types: spec.Types, ByteOrder: spec.ByteOrder}, nil
}

// ParsePIDs returns the PID namespace of the process that has read text from PIDList's program and,
// for each thread in it, the number in the initial namespace by the number in there.
func ParsePIDs(text []byte) (ns Namespace, pids map[uint32]uint32, err error) {
	const size = int(unsafe.Sizeof(engineListedPid{}))
	if len(text) == 0 || len(text)%size != 0 {
		return ns, nil, fmt.Errorf("a list of PIDs of %d bytes, for %d each", len(text), size)
	}
	var l engineListedPid
	le := binary.LittleEndian
	pids = map[uint32]uint32{}
	for ; len(text) > 0; text = text[size:] {
		pids[le.Uint32(text[unsafe.Offsetof(l.Inner):])] = le.Uint32(text[unsafe.Offsetof(l.Pid):])
		if level := le.Uint32(text[unsafe.Offsetof(l.Level):]); level > 0 {
			ns = Namespace{le.Uint64(text[unsafe.Offsetof(l.Addr):]), level}
		}
	}
	return ns, pids, nil
}
