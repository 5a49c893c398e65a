// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSort sorts symbols near each other and far apart.
func TestSort(t *testing.T) {
	for _, far := range []bool{false, true} {
		random := rand.New(rand.NewPCG(1, 2))
		table := &symbolTable{touch: func() {}}
		var want []uint64
		for n := range 5000 {
			addr := 0xffffffff_00000000 | uint64(random.Uint32N(1<<31))<<1
			if far && n%7 == 0 {
				addr = random.Uint64()
			}
			if n%3 == 0 {
				addr = 0xffffffff_80000000 // several names for one function
			}
			want = append(want, addr)
			s := binary.LittleEndian.AppendUint32(nil, uint32(n+1)) // the name
			s = append(s, 2, 0, 1, 0)                               // a function in section 1
			s = binary.LittleEndian.AppendUint64(s, addr)
			table.symbols = append(table.symbols, binary.LittleEndian.AppendUint64(s, 16)...)
		}
		slices.Sort(want)
		sorted := table.sort()
		if len(sorted) != len(want) {
			t.Fatalf("%d of %d symbols", len(sorted), len(want))
		}
		for i, s := range sorted {
			if s.addr != want[i] {
				t.Fatalf("far %v: %#x at %d, want %#x", far, s.addr, i, want[i])
			}
			if i > 0 && s.addr == sorted[i-1].addr && s.name < sorted[i-1].name {
				t.Fatalf("far %v: names of %#x changed places", far, s.addr)
			}
		}
	}
}
