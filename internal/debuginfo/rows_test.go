// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "testing"

// Rows of a piece of code say what looking each of its addresses up says.
func TestRowsEqualLookup(t *testing.T) {
	file := buildProgram(t, "gcc", "gcc -O2 -g -gdwarf-5 *.c")
	const slide = 0x7000000000
	info, err := Open(file, Options{slide: slide, Relative: true})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	const size = 48
	compared := 0
	for _, lo := range randomText(t, file, 500) {
		lo += slide
		rows := info.Rows(nil, lo, lo+size)
		if len(rows) > 0 && rows[0].Addr != lo {
			t.Errorf("the first row of %#x is at %#x", lo, rows[0].Addr)
		}
		for i, r := range rows {
			end := r.Addr + 1 // of the last, which may end with the unit's code
			if i+1 < len(rows) {
				end = rows[i+1].Addr
			}
			if end <= r.Addr {
				t.Fatalf("rows at %#x and %#x are out of order", r.Addr, end)
			}
			for _, addr := range []uint64{r.Addr, end - 1} {
				frames := info.Lookup(nil, addr)
				if len(frames) == 0 {
					continue // between two pieces of code
				}
				compared++
				if f := frames[0]; f.Line != r.Line || f.File != r.File {
					t.Errorf("%#x: %s:%d, Lookup has %s:%d", addr, r.File, r.Line, f.File, f.Line)
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d addresses compared", compared)
	}
	if rows := info.Rows(nil, 1, 100); len(rows) > 0 {
		t.Errorf("rows of no code: %v", rows)
	}
}
