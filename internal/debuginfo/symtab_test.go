// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

// TestSymbolAt: the symbol of an address is the same however often it is asked for. Functions of assembler code may be
// within others, and have several names. Where a symbol contains an address is what st_size says.
func TestSymbolAt(t *testing.T) {
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o")
	const text = `
		.text
		.type outer, @function
		.type inner, @function
		.type innermost, @function
		.type first, @function
		.type second, @function
		.type across, @function
	outer:	nop
	inner:	nop
	innermost:
		nop
		.size innermost, . - innermost
		nop
		.size inner, . - inner
		nop
	first:
	second:	nop
		.size first, . - first
		nop
		.size second, . - second
	across:	nop
		.size outer, . - outer
		nop
		.size across, . - across
		nop
	`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("gcc", "-c", "-o", out, src).CombinedOutput(); err != nil {
		t.Skipf("%v %s", err, msg)
	}
	info, err := Open(out, Options{Stripped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	outer, _ := info.SymbolNamed("outer")
	want := []string{"outer", "inner", "innermost", "inner", "outer", "first", "second", "across", "across", ""}
	for round := range 2 {
		for addr, name := range want {
			if s, _ := info.SymbolAt(outer.Addr + uint64(addr)); s.Name != name {
				t.Errorf("round %d, address %d: %q, want %q", round, addr, s.Name, name)
			}
		}
	}
}

// TestCovering: what is found in the sorted table is what a scan finds.
func TestCovering(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	table := &symbolTable{touch: func() {}}
	for n := range uint32(300) {
		s := binary.LittleEndian.AppendUint32(nil, n+1)
		s = append(s, 2, 0, 1, 0)
		s = binary.LittleEndian.AppendUint64(s, uint64(random.Uint32N(1000)))
		table.symbols = append(table.symbols, binary.LittleEndian.AppendUint64(s, uint64(1+random.Uint32N(1+random.Uint32N(200))))...)
	}
	all := table.sort()
	nest(all)
	table.sorted = func() []tableSymbol { return all }
	table.lookups.Store(1 << 10)
	for addr := range uint64(1300) {
		var got, want []uint32
		for s := range table.covering(addr) {
			got = append(got, s.name)
		}
		found, _ := table.scan(addr)
		for _, s := range found {
			want = append(want, s.name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d: %d, want %d", addr, got, want)
		}
	}
}
