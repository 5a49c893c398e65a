// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"
)

// A place is one within a type.
type place struct {
	path string // "->key_size", "->sk.sk_state", "->list[2]"
	typ  btf.Type
	at   uint32 // bytes of it before the place, where that is within a number
	bits uint64 // of a bit field: those that it has there
}

// mostMembers bounds the members of unions that are at one place.
const mostMembers = 64

// membersAt returns what a type has at an offset: the numbers and pointers that are at least as
// large as size, in bytes. Several are at one place in a union.
func membersAt(t btf.Type, separator string, off uint32, size int) []place {
	var found []place
	addMembers(&found, t, separator, "", off, size, 0)
	return found
}

func addMembers(found *[]place, t btf.Type, separator, path string, off uint32, size, depth int) {
	const mostNested = 16
	if depth > mostNested || len(*found) >= mostMembers {
		return
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		addFields(found, t.Members, separator, path, off, size, depth)
	case *btf.Union:
		addFields(found, t.Members, separator, path, off, size, depth)
	case *btf.Array:
		n, err := btf.Sizeof(t.Type)
		if err != nil || n == 0 || off/uint32(n) >= t.Nelems {
			return
		}
		addMembers(found, t.Type, ".", path+"["+strconv.FormatUint(uint64(off)/uint64(n), 10)+"]", off%uint32(n), size, depth+1)
	default:
		n, err := btf.Sizeof(t)
		if err == nil && path != "" && int(off)+size <= n {
			*found = append(*found, place{path, t, off, 0})
		}
	}
}

func addFields(found *[]place, members []btf.Member, separator, path string, off uint32, size, depth int) {
	for i := range members {
		m := &members[i]
		inner, next := path, separator
		if m.Name != "" {
			inner, next = path+separator+m.Name, "."
		}
		if m.BitfieldSize != 0 {
			first, bits := uint32(m.Offset), uint32(m.BitfieldSize)
			if first+bits > off*8 && first >= off*8 && first+bits <= off*8+uint32(size)*8 && bits < 64 {
				*found = append(*found, place{inner, m.Type, 0, (1<<bits - 1) << (first - off*8)})
			}
			continue
		}
		n, err := btf.Sizeof(m.Type)
		begin := m.Offset.Bytes()
		if err != nil || off < begin || uint64(off)-uint64(begin) >= uint64(n) {
			continue
		}
		addMembers(found, m.Type, next, inner, off-begin, size, depth+1)
	}
}

// exactly returns the members that are exactly of a size at a place.
func exactly(found []place, size int) []place {
	return slices.DeleteFunc(slices.Clone(found), func(m place) bool {
		n, err := btf.Sizeof(m.typ)
		return m.bits != 0 || m.at != 0 || err != nil || n != size
	})
}

// pointedTo returns what a pointer points to; nil if t is none, or nothing is known of it.
func pointedTo(t btf.Type) btf.Type {
	if t == nil {
		return nil
	}
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return nil
	}
	return aggregate(p.Target)
}

// aggregate returns a type that has members; nil if t is none.
func aggregate(t btf.Type) btf.Type {
	if t == nil {
		return nil
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union:
		return t
	}
	return nil
}
