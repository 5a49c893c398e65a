// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// blobOf is the BTF of types, which are words. The first one has ID 1; at offset 1 is a name.
func blobOf(types ...[]uint32) []byte {
	const names = "\x00name\x00"
	var data []byte
	size := uint32(4 * len(slices.Concat(types...)))
	for _, v := range slices.Concat([]uint32{btfMagic | 1<<16, btfHeaderSize, 0, size, size, uint32(len(names))}, slices.Concat(types...)) {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	return append(data, names...)
}

// refused returns what the types of a recording and those of a file are refused for; "" if they are taken. Then all can be
// decoded: a row that is too long for the stack ends the test.
func refused(t *testing.T, data []byte) string {
	t.Helper()
	spec, err1 := Open(fstest.MapFS{vmlinuxFile: {Data: data}}).BTF()
	_, err2 := OpenBTF(bytes.NewReader(data), nil, "")
	_, err3 := OpenTyped(fstest.MapFS{}, bytes.NewReader(data))
	for _, err := range []error{err2, err3} {
		if fmt.Sprint(err) != fmt.Sprint(err1) {
			t.Errorf("of a recording: %v, of a file: %v", err1, err)
		}
	}
	if err1 != nil {
		return err1.Error()
	}
	for _, err := range spec.All() {
		if err != nil {
			t.Error(err)
		}
	}
	return ""
}

// TestForeignTypes: what a recording or a file has is decoded if it has not too many types.
func TestForeignTypes(t *testing.T) {
	pointer := []uint32{0, kindPtr << 24, 0}
	for n, want := range map[int]string{mostForeign - 1: "", mostForeign: "at most 500000 are read"} {
		if err := refused(t, blobOf(slices.Repeat([][]uint32{pointer}, n)...)); (err == "") != (want == "") || !strings.Contains(err, want) {
			t.Errorf("%d types: %q, want %q", n, err, want)
		}
	}
}

// TestNestedTypes: types that are nested too deep are refused, and no others. To show 100,000 structs, each in the one before,
// takes 5 GB of tabs.
func TestNestedTypes(t *testing.T) {
	const name = 1
	type level func(id, to uint32) []uint32 // its types, of which the first has the ID; the last one leads to another level
	ref := func(kind uint32) level { return func(_, to uint32) []uint32 { return []uint32{0, kind << 24, to} } }
	array := func(_, to uint32) []uint32 { return []uint32{0, kindArray << 24, 0, to, 0, 1} }
	parameter := func(_, to uint32) []uint32 { return []uint32{0, kindFuncProto<<24 | 1, 0, 0, to} }
	composite := func(name, kind uint32) level {
		return func(_, to uint32) []uint32 { return []uint32{name, kind<<24 | 2, 8, 0, 0, 0, 0, to, 0} }
	}
	pointed := func(l level) level {
		return func(id, to uint32) []uint32 { return slices.Concat(l(id, id+1), ref(kindPtr)(0, to)) }
	}
	for _, c := range []struct {
		name  string
		level level
		types uint32 // of a level
		most  uint32 // levels that are taken; 0: any number
	}{
		{"pointers", ref(kindPtr), 1, mostNested},
		{"qualifiers", ref(kindConst), 1, mostNested},
		{"typedefs", ref(kindTypedef), 1, mostNested},
		{"arrays", array, 1, mostNested},
		{"structs", composite(name, kindStruct), 1, mostNested},
		{"unions without names", composite(0, kindUnion), 1, mostNested},
		{"parameters", parameter, 1, mostNested},
		{"results", ref(kindFuncProto), 1, mostNested},
		{"pointers to arrays", pointed(array), 2, mostNested / 2},
		{"pointers to functions", pointed(parameter), 2, mostNested / 2},
		{"pointers to structs without names", pointed(composite(0, kindStruct)), 2, mostNested / 2},
		{"pointers to structs", pointed(composite(name, kindStruct)), 2, 0},
	} {
		for n, deep := range map[uint32]bool{max(c.most, 1000): c.most > 0, c.most: false, c.most + 1: c.most > 0} {
			var back, forth, loop [][]uint32
			for i := range n {
				id := 1 + i*c.types
				before, after := id-c.types, id+c.types
				if i == 0 {
					before = 0
				}
				last := after
				if i == n-1 {
					after, last = 0, 1
				}
				back, forth, loop = append(back, c.level(id, before)), append(forth, c.level(id, after)), append(loop, c.level(id, last))
			}
			for order, types := range map[string][][]uint32{"to those before": back, "to those behind": forth, "in a loop": loop} {
				want := ""
				if deep || order == "in a loop" && c.most > 0 {
					want = "is nested deeper than 64 levels"
				}
				if err := refused(t, blobOf(types...)); (err == "") != (want == "") || !strings.Contains(err, want) {
					t.Errorf("%d %s %s: %q, want %q", n, c.name, order, err, want)
				}
			}
		}
	}
}
