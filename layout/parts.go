// SPDX-License-Identifier: Apache-2.0

package layout

import "github.com/cilium/ebpf/btf"

// Words returns how many 64-bit words a value takes: 0 for a struct without members, 1 for
// a type of unknown size.
func Words(t btf.Type) int {
	size, err := btf.Sizeof(t)
	if err != nil {
		return 1
	}
	return (size + 7) / 8
}

// members returns the members of a struct or union; for an array, one element.
func members(t btf.Type) ([]btf.Member, bool) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members, true
	case *btf.Union:
		return t.Members, true
	case *btf.Array:
		return []btf.Member{{Type: t.Type}}, true
	}
	return nil, false
}

// bounded reports whether t has a sane number of parts. Types from files and recordings may
// contain themselves, which would make the recursions below endless.
func bounded(t btf.Type) bool {
	const depth, parts = 32, 4096
	left := parts
	var walk func(btf.Type, int) bool
	walk = func(t btf.Type, below int) bool {
		if left--; left < 0 || below == 0 {
			return false
		}
		list, _ := members(t)
		for _, m := range list {
			if !walk(m.Type, below-1) {
				return false
			}
		}
		return true
	}
	return walk(t, depth)
}

// aligned16 reports whether t is aligned to 16 bytes. This holds for __int128, for floats of
// 16 bytes, and for aggregates that contain one, unless they are packed.
func aligned16(t btf.Type) bool {
	size, err := btf.Sizeof(t)
	if err != nil || size == 0 || size%16 != 0 {
		return false
	}
	list, ok := members(t)
	if !ok {
		switch btf.UnderlyingType(t).(type) {
		case *btf.Int, *btf.Float:
			return true
		}
		return false
	}
	for _, m := range list {
		if m.Offset%128 == 0 && aligned16(m.Type) {
			return true
		}
	}
	return false
}
