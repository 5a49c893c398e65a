// SPDX-License-Identifier: Apache-2.0

package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAttr is the head of union bpf_attr for BPF_MAP_CREATE, as long as this
// program needs it: the kernel takes the rest as 0.
type mapAttr struct {
	mapType, keySize, valueSize, maxEntries, flags uint32
}

func createMap(a mapAttr) result {
	return call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
}

func mapCases() []workCase {
	const beyond = 0x7fff // no such map type
	table := []struct {
		name, about string
		attr        mapAttr
		want        []unix.Errno
	}{
		{"map-ok", "create an array map: succeeds", mapAttr{unix.BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0}, nil},
		{"map-array-zero", "create an array map without entries: EINVAL from array_map_alloc_check", mapAttr{unix.BPF_MAP_TYPE_ARRAY, 4, 8, 0, 0}, []unix.Errno{unix.EINVAL}},
		{"map-array-key", "create an array map with a key of 3 bytes: EINVAL from array_map_alloc_check", mapAttr{unix.BPF_MAP_TYPE_ARRAY, 3, 8, 16, 0}, []unix.Errno{unix.EINVAL}},
		{"map-array-flags", "create an array map with flags that do not exist: EINVAL from array_map_alloc_check", mapAttr{unix.BPF_MAP_TYPE_ARRAY, 4, 8, 16, 1 << 30}, []unix.Errno{unix.EINVAL}},
		// Refused by array_map_alloc_check since Linux 6.4, before by the allocator.
		{"map-percpu-big", "create a per-CPU array map of 1 MiB values: E2BIG, or ENOMEM on older kernels", mapAttr{unix.BPF_MAP_TYPE_PERCPU_ARRAY, 4, 1 << 20, 1, 0}, []unix.Errno{unix.E2BIG, unix.ENOMEM}},
		{"map-hash-key", "create a hash map with keys of 1 GiB: E2BIG from htab_map_alloc_check", mapAttr{unix.BPF_MAP_TYPE_HASH, 1 << 30, 8, 16, 0}, []unix.Errno{unix.E2BIG}},
		{"map-hash-zero", "create a hash map without entries: EINVAL from htab_map_alloc_check", mapAttr{unix.BPF_MAP_TYPE_HASH, 4, 8, 0, 0}, []unix.Errno{unix.EINVAL}},
		{"map-type", "create a map of a type that does not exist: EINVAL from map_create", mapAttr{beyond, 4, 8, 16, 0}, []unix.Errno{unix.EINVAL}},
	}
	var cases []workCase
	for _, row := range table {
		cases = append(cases, attempts(row.name, row.about, func() result { return createMap(row.attr) }, row.want))
	}
	return cases
}
