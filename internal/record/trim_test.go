// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// trimmed returns a recording without what replay does not look at: most symbols and
// types of its kernel, which are megabytes.
func trimmed(t *testing.T, data []byte) []byte {
	t.Helper()
	r, raw, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	traced := map[string]bool{}
	for _, p := range r.plan.Probes {
		traced[p.Func.Name] = true
	}
	blocks := blocksOf(t, data)
	for i, b := range blocks {
		name, contents, _ := strings.Cut(b.data, "\x00")
		switch {
		case b.kind != blockFile:
		case name == symbolFile:
			blocks[i].data = name + "\x00" + trimSymbols(t, contents, raw, traced)
		case name == btfDir+"vmlinux":
			blocks[i].data = name + "\x00" + trimTypes(t, contents, traced)
		}
	}
	return build(t, blocks...)
}

// trimSymbols keeps the symbols that addresses in the records lie in, those of traced
// functions, and the one behind each, where it ends.
func trimSymbols(t *testing.T, kallsyms string, raw [][]byte, traced map[string]bool) string {
	t.Helper()
	lines := strings.SplitAfter(kallsyms, "\n")
	lines = lines[:len(lines)-1] // what is behind the last newline
	addrs := make([]uint64, len(lines))
	for i, line := range lines {
		var err error
		if addrs[i], err = strconv.ParseUint(strings.Fields(line)[0], 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(addrs)))
	keep := map[uint64]bool{}
	const kernel = 0xffffffff80000000 // where code and data of the kernel and its modules begin
	want := func(addr uint64) {
		at, found := slices.BinarySearch(sorted, addr)
		if !found {
			at--
		}
		if addr < kernel || at < 0 {
			return
		}
		for _, a := range sorted[at:min(at+2, len(sorted))] {
			keep[a] = true
		}
	}
	for i, line := range lines {
		if traced[strings.Fields(line)[2]] {
			want(addrs[i])
		}
	}
	for _, record := range raw {
		for ; len(record) >= 8; record = record[1:] {
			want(binary.LittleEndian.Uint64(record))
		}
	}
	var b strings.Builder
	for i, line := range lines {
		if keep[addrs[i]] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// deepest is how many pointers away from a traced function a struct is kept whole. One
// that is farther away is only declared.
const deepest = 2

// Kinds of BTF, see include/uapi/linux/btf.h.
const (
	btfPtr, btfArray, btfStruct, btfUnion, btfFwd = 2, 3, 4, 5, 7
	btfTypedef, btfFunc, btfProto                 = 8, 12, 13
)

// A rawType is a type in a BTF file: 12 bytes (name, kind and how many parts there are,
// size or type), and more by its kind.
type rawType []byte

func (r rawType) kind() uint32        { return r.word(4) >> 24 & 0x1f }
func (r rawType) word(off int) uint32 { return binary.LittleEndian.Uint32(r[off:]) }

// parts returns where the type has words that are names and that are types.
func (r rawType) parts() (size int, names, types []int) {
	size, names = 12, []int{0}
	n, each, name, typ := int(r.word(4)&0xffff), 0, true, true
	switch r.kind() {
	case btfArray:
		return size + 12, names, []int{12, 16}
	case btfStruct, btfUnion:
		each = 12
	case btfProto:
		types, each = []int{8}, 8
	case btfPtr, btfTypedef, 9, 10, 11, btfFunc, 18: // volatile, const, restrict; type tag
		types, n = []int{8}, 0 // the number of a function's parts is its linkage
	case 6: // enum
		each, typ = 8, false
	case 19: // enum64
		each, typ = 12, false
	case 15: // section
		each, name, typ = 12, false, false
	case 1, 14, 17: // integer, variable, declaration tag
		size, n = 16, 0
	default: // declaration, float
		n = 0
	}
	for range n {
		if name {
			names = append(names, size)
		}
		if typ {
			types = append(types, size+4)
		}
		size += each
	}
	return size, names, types
}

// keepTypes notes which types the one with an ID is about, and how many pointers away.
func keepTypes(types []rawType, kept map[uint32]int, id uint32, depth int) {
	if known, ok := kept[id]; id == 0 || ok && known <= depth {
		return
	}
	kept[id] = depth
	typ := types[id]
	if typ.farAway(depth) {
		return
	}
	if typ.kind() == btfPtr {
		depth++
	}
	_, _, refs := typ.parts()
	for _, at := range refs {
		keepTypes(types, kept, typ.word(at), depth)
	}
}

func (r rawType) farAway(depth int) bool {
	return (r.kind() == btfStruct || r.kind() == btfUnion) && depth > deepest
}

// trimTypes keeps what the signatures of traced functions are about. Of the other types
// nameless declarations are left, so that each has the ID that it had.
func trimTypes(t *testing.T, blob string, traced map[string]bool) string {
	t.Helper()
	const header = 24
	le, head := binary.LittleEndian, []byte(blob[:header])
	section := func(at int) string { return blob[header+le.Uint32(head[at:]):][:le.Uint32(head[at+4:])] }
	names := section(16)
	name := func(off uint32) string {
		text, _, _ := strings.Cut(names[off:], "\x00")
		return text
	}
	types, kept := []rawType{nil}, map[uint32]int{}
	for all := rawType(section(8)); len(all) > 0; {
		size, _, _ := all.parts()
		types, all = append(types, all[:size]), all[size:]
	}
	for id, typ := range types[1:] {
		if typ.kind() == btfFunc && traced[name(typ.word(0))] {
			keepTypes(types, kept, uint32(id+1), 0)
		}
	}
	text, out := make([]byte, len(names)), []byte(nil)
	for id, typ := range types[1:] {
		depth, ok := kept[uint32(id+1)]
		if !ok || typ.farAway(depth) {
			declared := make(rawType, 12)
			if ok {
				copy(declared, typ[:4])
			}
			le.PutUint32(declared[4:], btfFwd<<24)
			typ = declared
		}
		_, used, _ := typ.parts()
		for _, at := range used {
			copy(text[typ.word(at):], name(typ.word(at)))
		}
		out = append(out, typ...)
	}
	for i, n := range []int{0, len(out), len(out), len(text)} { // both sections: where, how long
		le.PutUint32(head[8+4*i:], uint32(n))
	}
	return string(slices.Concat(head, out, text))
}
