// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"math"
	"testing"
)

// The numbers are the standard's examples, DWARF 5 section 7.6, and the bounds.
func TestLEB128(t *testing.T) {
	for _, test := range []struct {
		bytes    string
		unsigned uint64
		signed   int64
	}{
		{"\x02", 2, 2},
		{"\x7f", 127, -1},
		{"\x80\x01", 128, 128},
		{"\x81\x01", 129, 129},
		{"\xb9\x64", 12857, -3527},
		{"\x7e", 126, -2},
		{"\xff\x00", 127, 127},
		{"\x80\x7f", 16256, -128},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", math.MaxUint64, -1},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 1 << 63, math.MinInt64},
		{"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 1, 1},
	} {
		c := cursor{b: []byte(test.bytes)}
		if got := c.uleb(); got != test.unsigned || c.bad || c.pos != len(c.b) {
			t.Errorf("uleb(%q) = %d, bad %v, to %d", test.bytes, got, c.bad, c.pos)
		}
		c = cursor{b: []byte(test.bytes)}
		if got := c.sleb(); got != test.signed || c.bad || c.pos != len(c.b) {
			t.Errorf("sleb(%q) = %d, bad %v, to %d", test.bytes, got, c.bad, c.pos)
		}
	}
}

func TestCursorEnds(t *testing.T) {
	for name, read := range map[string]func(*cursor){
		"u8":     func(c *cursor) { c.u8(); c.u8() },
		"u16":    func(c *cursor) { c.u16() },
		"u32":    func(c *cursor) { c.u32() },
		"u64":    func(c *cursor) { c.u64() },
		"sized":  func(c *cursor) { c.sized(3) },
		"uleb":   func(c *cursor) { c.uleb() },
		"sleb":   func(c *cursor) { c.sleb() },
		"text":   func(c *cursor) { c.text() },
		"length": func(c *cursor) { c.length() },
		"skip":   func(c *cursor) { c.skip(math.MaxUint64) },
	} {
		c := cursor{b: []byte("\x80\x80"), pos: 1}
		if read(&c); !c.bad || c.pos != len(c.b) {
			t.Errorf("%s: bad %v, at %d", name, c.bad, c.pos)
		}
	}
	if c := at([]byte("x"), 2); !c.bad {
		t.Error("a cursor beyond the end is not bad")
	}
}
