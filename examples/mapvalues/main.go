// SPDX-License-Identifier: Apache-2.0

// Mapvalues prints the elements of a BPF map by the map's own types.
//
//	mapvalues ID
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/btfprint"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mapvalues ID")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "mapvalues: %v\n", err)
		os.Exit(1)
	}
}

func run(id string) error {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return err
	}
	m, err := ebpf.NewMapFromID(ebpf.MapID(n))
	if err != nil {
		return err
	}
	defer m.Close()
	key, value, err := printers(m)
	if err != nil {
		return err
	}
	compact := &btfprint.ValueOptions{Mode: btfprint.Compact, ShowZeroes: true}
	var k, v []byte
	for it := m.Iterate(); it.Next(&k, &v); {
		fmt.Printf("%s: %s\n", key.AppendValue(nil, k, compact), value.AppendValue(nil, v, compact))
	}
	return nil
}

// printers are for a map's keys and values.
func printers(m *ebpf.Map) (key, value *btfprint.Printer, err error) {
	h, err := m.Handle()
	if err != nil {
		return nil, nil, fmt.Errorf("the map has no types: %w", err)
	}
	defer h.Close()
	spec, err := h.Spec(nil)
	if err != nil {
		return nil, nil, err
	}
	keyType, valueType, err := typesOf(m, spec)
	if err != nil {
		return nil, nil, err
	}
	if key, err = btfprint.Compile(keyType, binary.NativeEndian); err != nil {
		return nil, nil, err
	}
	value, err = btfprint.Compile(valueType, binary.NativeEndian)
	return key, value, err
}

// mapInfo is the beginning of struct bpf_map_info of linux/bpf.h.
type mapInfo struct {
	_                        [6]uint32
	_                        [16]byte // name
	_, _                     uint32
	_, _                     uint64 // of a network device
	_, keyType, valueType, _ uint32 // the first is of the BTF object
}

// typesOf returns the types of a map's keys and values, by their ids.
func typesOf(m *ebpf.Map, spec *btf.Spec) (key, value btf.Type, err error) {
	var info mapInfo
	attr := struct {
		fd, size uint32
		info     *mapInfo
	}{uint32(m.FD()), uint32(unsafe.Sizeof(info)), &info}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)); errno != 0 {
		return nil, nil, errno
	}
	if key, err = spec.TypeByID(btf.TypeID(info.keyType)); err != nil {
		return nil, nil, err
	}
	value, err = spec.TypeByID(btf.TypeID(info.valueType))
	return key, value, err
}
