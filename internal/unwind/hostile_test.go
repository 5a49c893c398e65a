// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// TestLongAugmentation: letters that fill a section, in which a CIE may begin anywhere, are not read for
// each entry anew.
func TestLongAugmentation(t *testing.T) {
	s := section{debug: true, data: bytes.Repeat([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 1}, 2<<20)} // the length, the id, the version
	table := Table{machine: AMD64()}
	if body, id, ok := s.open(0); !ok || id != noCommon || body.end < 1<<24 {
		t.Fatalf("%d, %#x, %v", body.end, id, ok)
	}
	var got *common
	// To keep 16 MB of letters takes more than twenty.
	if n := testing.AllocsPerRun(1, func() { got = table.readCommon(&s, 0) }); got != nil || n > mostLetters {
		t.Errorf("%v, %v allocations", got, n)
	}
}

// TestLongNumber: no more of a number is read than 64 bits take.
func TestLongNumber(t *testing.T) {
	longest := binary.AppendUvarint(nil, math.MaxUint64)
	c := cursor{b: longest, end: uint64(len(longest))}
	if v := c.uleb(); v != math.MaxUint64 || c.bad || c.more() {
		t.Errorf("%#x of % x: %+v", v, longest, c)
	}
	for name, read := range map[string]func(*cursor){
		"unsigned": func(c *cursor) { c.uleb() },
		"signed":   func(c *cursor) { c.sleb() },
	} {
		c := cursor{b: bytes.Repeat([]byte{0x80}, 1<<10), end: 1 << 10}
		if read(&c); !c.bad || c.pos != uint64(len(longest)) {
			t.Errorf("%s: it ends at %d, bad: %v", name, c.pos, c.bad)
		}
	}
}
