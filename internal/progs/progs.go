// SPDX-License-Identifier: Apache-2.0

// Package progs asks the running kernel which BPF programs are loaded, and for their types.
package progs

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits on what a kernel says, so that its word alone makes no room.
const (
	maxFunctions = 4096
	maxMaps      = 64
	maxCode      = 1 << 20 // bytes of instructions: more take long to look through
	maxBTF       = 64 << 20
)

// List returns the programs that are loaded, in the order of their IDs. It takes CAP_SYS_ADMIN.
func List() ([]Program, error) {
	var all []Program
	for id := uint32(0); ; {
		next, err := nextID(unix.BPF_PROG_GET_NEXT_ID, id)
		if errors.Is(err, unix.ENOENT) {
			if attached, err := links(); err == nil { // else the kernel refuses what it does not let be traced
				addExtensions(all, attached)
			}
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing BPF programs: %w", err)
		}
		id = next
		p, err := read(id)
		if errors.Is(err, unix.ENOENT) {
			continue // unloaded in the meantime
		}
		if err != nil {
			return nil, fmt.Errorf("BPF program %d: %w", id, err)
		}
		all = append(all, p)
	}
}

// Types returns the BTF of a loaded program.
func Types(program uint32) ([]byte, error) {
	p, err := read(program)
	if err != nil {
		return nil, fmt.Errorf("BPF program %d: %w", program, err)
	}
	if p.BTF == 0 {
		return nil, fmt.Errorf("BPF program %d: it was loaded without types", program)
	}
	fd, err := byID(unix.BPF_BTF_GET_FD_BY_ID, p.BTF)
	if err != nil {
		return nil, fmt.Errorf("types of BPF program %d: %w", program, err)
	}
	defer unix.Close(fd)
	var info btfInfo
	for range 2 { // how many bytes, and then the bytes
		data := make([]byte, min(info.size, maxBTF))
		info = btfInfo{data: unsafe.Pointer(unsafe.SliceData(data)), size: uint32(len(data))}
		if err := infoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
			return nil, fmt.Errorf("types of BPF program %d: %w", program, err)
		}
		if len(data) > 0 && int(info.size) <= len(data) {
			return data[:info.size], nil
		}
	}
	return nil, fmt.Errorf("types of BPF program %d: they have %d bytes", program, info.size)
}

// btfInfo is the head of struct bpf_btf_info.
type btfInfo struct {
	data unsafe.Pointer
	size uint32
	id   uint32
}

// progInfo is struct bpf_prog_info up to nr_func_info, which all supported kernels have.
type progInfo struct {
	typ, id                uint32
	tag                    [8]byte
	jitedLen, xlatedLen    uint32
	jited                  uint64
	xlated                 unsafe.Pointer
	loadTime               uint64
	uid, nrMaps            uint32
	maps                   unsafe.Pointer
	name                   [16]byte
	ifindex, flags         uint32
	netnsDev, netnsIno     uint64
	nrKsyms, nrFuncLens    uint32
	ksyms, funcLens        unsafe.Pointer
	btfID, funcInfoSize    uint32
	funcInfo               unsafe.Pointer
	nrFuncInfo, nrLineInfo uint32
}

// funcInfo is struct bpf_func_info.
type funcInfo struct{ offset, typ uint32 }

// read returns what the kernel tells of a program.
func read(id uint32) (p Program, err error) {
	fd, err := byID(unix.BPF_PROG_GET_FD_BY_ID, id)
	if err != nil {
		return p, err
	}
	defer unix.Close(fd)
	var counts progInfo
	if err := infoOf(fd, unsafe.Pointer(&counts), unsafe.Sizeof(counts)); err != nil {
		return p, err
	}
	ksyms := make([]uint64, min(counts.nrKsyms, maxFunctions))
	funcs := make([]funcInfo, min(counts.nrFuncInfo, maxFunctions))
	maps := make([]uint32, min(counts.nrMaps, maxMaps))
	code := make([]byte, min(counts.xlatedLen, maxCode))
	info := progInfo{
		xlatedLen: uint32(len(code)), xlated: unsafe.Pointer(unsafe.SliceData(code)),
		nrKsyms: uint32(len(ksyms)), ksyms: unsafe.Pointer(unsafe.SliceData(ksyms)),
		nrFuncInfo: uint32(len(funcs)), funcInfo: unsafe.Pointer(unsafe.SliceData(funcs)), funcInfoSize: uint32(unsafe.Sizeof(funcInfo{})),
		nrMaps: uint32(len(maps)), maps: unsafe.Pointer(unsafe.SliceData(maps)),
	}
	if err := infoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return p, err
	}
	p = Program{ID: info.id, Name: unix.ByteSliceToString(info.name[:]), Type: info.typ, BTF: info.btfID, Jited: info.jitedLen > 0}
	for i, f := range funcs[:min(len(funcs), int(info.nrFuncInfo))] {
		of := Function{Type: f.typ}
		if i < min(len(ksyms), int(info.nrKsyms)) {
			of.Addr = ksyms[i]
		}
		p.Functions = append(p.Functions, of)
	}
	if int(info.xlatedLen) == len(code) && info.xlated != nil { // the kernel shows them
		p.addPassing(decode(code), funcs[:len(p.Functions)])
	}
	for _, m := range maps[:min(len(maps), int(info.nrMaps))] {
		if name, err := mapName(m); err == nil {
			p.Maps = append(p.Maps, name)
		}
	}
	slices.Sort(p.Maps)
	return p, nil
}

// addPassing finds how the functions are called.
func (p *Program) addPassing(code []instruction, funcs []funcInfo) {
	starts := make([]int, len(funcs))
	for i := range funcs {
		starts[i] = int(funcs[i].offset)
	}
	for i, found := range passing(code, starts) {
		p.Functions[i].Passing = found
	}
}

// mapInfo is the head of struct bpf_map_info.
type mapInfo struct {
	typ, id, keySize, valueSize, maxEntries, flags uint32
	name                                           [16]byte
}

func mapName(id uint32) (string, error) {
	fd, err := byID(unix.BPF_MAP_GET_FD_BY_ID, id)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var info mapInfo
	err = infoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info))
	return unix.ByteSliceToString(info.name[:]), err
}
