// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestAddSymbols: symbols that come in any pieces are found as one table of them finds them.
func TestAddSymbols(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, 2000)
	for i := range lines {
		s := Symbol{Name: fmt.Sprintf("f%d", i), Addr: 0xffffffff81000000 + 0x100*uint64(i), Size: 0x80}
		if i%5 == 0 {
			s.Module = "mod"
		}
		lines[i] = string(AppendSymbol(nil, s))
	}
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	v := Open(fstest.MapFS{})
	for len(lines) > 0 {
		n := min(1+r.IntN(20), len(lines))
		if err := v.AddSymbols(strings.Join(lines[:n], "")); err != nil {
			t.Fatal(err)
		}
		lines = lines[n:]
	}
	for i := range uint64(2000) {
		for off, found := range map[uint64]bool{0: true, 0x7f: true, 0x80: false, 0xff: false} {
			want := Symbol{}
			if found {
				want = Symbol{Name: fmt.Sprintf("f%d", i), Addr: 0xffffffff81000000 + 0x100*i, Size: 0x80, Offset: off}
				if i%5 == 0 {
					want.Module = "mod"
				}
			}
			if s, ok := v.Symbol(0xffffffff81000000 + 0x100*i + off); s != want || ok != found {
				t.Fatalf("%d+%#x: %+v, %t", i, off, s, ok)
			}
		}
	}
	count := v.ranges.Load().count
	if err := v.AddSymbols(string(AppendSymbol(nil, Symbol{Name: "f1", Addr: 0xffffffff81000100, Size: 0x80}))); err != nil || v.ranges.Load().count != count {
		t.Errorf("a symbol that is known takes room: %v", err)
	}
	before := len(v.ranges.Load().runs)
	for range 100 {
		if err := v.AddSymbols(""); err != nil || len(v.ranges.Load().runs) != before {
			t.Fatalf("nothing new, %d runs after %d: %v", len(v.ranges.Load().runs), before, err)
		}
	}
	if s, ok := v.Symbol(0xffffffff80ffffff); ok {
		t.Errorf("before all symbols: %v", s)
	}
	if runs := v.ranges.Load().runs; len(runs) > 11 || !slices.IsSortedFunc(runs, func(a, b []symbolRange) int { return len(b) - len(a) }) {
		t.Errorf("%d runs", len(runs))
	}
}

func TestAddSymbolsRefuses(t *testing.T) {
	for _, text := range []string{"\n", "1 2\n", "1 2 \n", "x 1 a\n", "1 x a\n", "11111111111111111 1 a\n", "1 1 a\t[\n", "1 1 a\tmod\n", "1 1 a\n\n"} {
		if err := Open(fstest.MapFS{}).AddSymbols(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	v := Open(fstest.MapFS{})
	next := uint64(1)
	for i, refused := range []bool{false, false, true} {
		var half []byte
		for range MaxSymbols / 2 {
			half = AppendSymbol(half, Symbol{Name: "a", Addr: next, Size: 1})
			next++
		}
		if err := v.AddSymbols(string(half)); (err != nil) != refused || refused && !strings.Contains(err.Error(), "more than 2097152 symbols") {
			t.Errorf("%d: %v", i, err)
		}
	}
}
