// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Memory is kernel memory that user space writes to: the value of a BPF map.
// No page is mapped behind its end.
type Memory struct {
	Addr  uint64 // in the kernel
	Bytes []byte // the same memory
	m     *ebpf.Map
}

// NewMemory allocates size bytes, a multiple of the page size.
func NewMemory(size int) (*Memory, error) {
	if size%os.Getpagesize() != 0 {
		return nil, errors.New("memory must be whole pages")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return nil, fmt.Errorf("allocating kernel memory: %w", err)
	}
	b, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("mapping kernel memory: %w", err)
	}
	mem := &Memory{Bytes: b, m: m}
	if err := mem.find(); err != nil {
		mem.Close()
		return nil, err
	}
	return mem, nil
}

// find has a program write the value's address into the value.
func (m *Memory) find() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R1, m.m.FD(), 0),
		asm.StoreMem(asm.R1, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
	if err != nil {
		return fmt.Errorf("locating kernel memory: %w", err)
	}
	defer prog.Close()
	if _, _, err := prog.Test(make([]byte, 64)); err != nil {
		return fmt.Errorf("locating kernel memory: %w", err)
	}
	m.Addr = binary.LittleEndian.Uint64(m.Bytes)
	return nil
}

// FD is what another process can map the memory from.
func (m *Memory) FD() int { return m.m.FD() }

// Close frees the memory.
func (m *Memory) Close() error {
	return errors.Join(unix.Munmap(m.Bytes), m.m.Close())
}
