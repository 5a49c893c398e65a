// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// engineObject is the engine as it was compiled. To read it takes some milliseconds; who
// changes it does so in a copy.
var engineObject = sync.OnceValues(func() (*ebpf.CollectionSpec, error) {
	spec, err := loadEngine()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF engine: %w", err)
	}
	return spec, nil
})

// The engine's own programs and maps, by name in the collection.
const (
	MapEvents   = engineMapEvents
	MapCounters = engineMapCounters
	MapFamily   = engineMapFamily
	MapSites    = engineMapSites
	MapLists    = engineMapLists
	// ProgFork and ProgFree are there if Settings.Filter has Family, and ProgForkEarly in place of ProgFork if EarlyFork is set.
	ProgFork      = engineProgProcessFork
	ProgForkEarly = engineProgProcessForkEarly
	ProgFree      = engineProgProcessFree
	// ProgStashExit is there if Settings.Stash has frames.
	ProgStashExit = engineProgStashExit
	// These are there if Settings.Sessions is not nil, the last ones if it has InProcess, and Hung.
	ProgSessionExit = engineProgSessionExit
	ProgSessionFree = engineProgSessionFree
	ProgSessionExec = engineProgSessionExec
	ProgSessionHung = engineProgSessionHung
	// ProgSessionSwitch is there if they have off-CPU times.
	ProgSessionSwitch = engineProgSessionSwitch
)

func set(spec *ebpf.CollectionSpec, name string, v any) error {
	if err := spec.Variables[name].Set(v); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	return nil
}

// resize changes the size and the type of a map's values.
func resize(m *ebpf.MapSpec, size int) {
	m.ValueSize = uint32(size)
	m.Value = &btf.Array{Type: &btf.Int{Name: "unsigned char", Size: 1}, Index: m.Key, Nelems: m.ValueSize}
}

// enlarge changes the size of a data section of zeroes. The section gets another name: the ebpf
// package maps those named like sections into our own memory.
func enlarge(m *ebpf.MapSpec, name string, size int) {
	m.Name, m.ValueSize = name, uint32(size)
	m.Key, m.Value, m.Contents = nil, nil, nil
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
