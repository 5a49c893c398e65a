// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
)

// unitsAt writes units without entries whose abbreviations begin at offsets, in a version and with offsets of 4 or 8 bytes.
func unitsAt(order binary.AppendByteOrder, version uint16, offset int, tables ...int) (b []byte) {
	for _, table := range tables {
		size := 2 + offset + 1
		if version >= 5 {
			size++
		}
		if offset == 8 {
			b = order.AppendUint64(order.AppendUint32(b, wide), uint64(size))
		} else {
			b = order.AppendUint32(b, uint32(size))
		}
		if b = order.AppendUint16(b, version); version >= 5 {
			b = append(b, 1, 8)
		}
		if offset == 8 {
			b = order.AppendUint64(b, uint64(table))
		} else {
			b = order.AppendUint32(b, uint32(table))
		}
		if version < 5 {
			b = append(b, 8)
		}
	}
	return b
}

// abbreviationsOf writes so many abbreviations of 10 bytes each.
func abbreviationsOf(n int) (b []byte) {
	for i := range n {
		code := i + 1
		b = append(b, byte(code)|0x80, byte(code>>7)|0x80, byte(code>>14)|0x80, byte(code>>21), 0x34, 0, 0x1c, 0x0b, 0, 0) // with DW_AT_const_value
	}
	return append(b, 0)
}

// TestUnits: tables of abbreviations that are parts of each other do not take memory, in no format of units.
func TestUnits(t *testing.T) {
	const many = mostAbbreviations / 10
	steps := func(n, step int) (all []int) {
		for i := range n {
			all = append(all, i*step)
		}
		return all
	}
	little, big := binary.LittleEndian, binary.BigEndian
	// DW_FORM_implicit_const has a value in the table, which looks like an end of it here.
	constant := append(bytes.Repeat([]byte{1, 0x34, 0, 0x1c, 0x21, 0, 1, 0x0b, 0, 0}, many/2), 0)
	for name, test := range map[string]struct {
		info, abbreviations []byte
		want                error
	}{
		"each once":           {unitsAt(little, 4, 4, steps(20_000, 10)...), make([]byte, 200_000), nil},
		"one for all":         {unitsAt(little, 4, 4, make([]int, 100_000)...), abbreviationsOf(10_000), nil},
		"too large":           {unitsAt(little, 4, 4, 0), abbreviationsOf(many + 1), errAbbreviations},
		"without an end":      {unitsAt(little, 4, 4, 0), bytes.Repeat([]byte{0x81}, mostAbbreviations+1), errAbbreviations},
		"behind the section":  {unitsAt(little, 4, 4, 1<<30), abbreviationsOf(1), nil},
		"parts of each other": {unitsAt(little, 4, 4, steps(1000, 10)...), abbreviationsOf(200_000), errAbbreviations},
		"with constants":      {unitsAt(little, 4, 4, steps(1000, 10)...), constant, errAbbreviations},
		"DWARF 5":             {unitsAt(little, 5, 4, steps(1000, 10)...), abbreviationsOf(200_000), errAbbreviations},
		"of 64 bits":          {unitsAt(little, 3, 8, steps(1000, 10)...), abbreviationsOf(200_000), errAbbreviations},
		"big-endian":          {unitsAt(big, 5, 4, steps(1000, 10)...), abbreviationsOf(200_000), errAbbreviations},
		"big-endian, 64 bits": {unitsAt(big, 4, 8, steps(1000, 10)...), abbreviationsOf(200_000), errAbbreviations},
		"after gaps":          {append(unitsAt(little, 4, 4, 0), append(make([]byte, 400), unitsAt(little, 4, 4, steps(1000, 10)...)...)...), abbreviationsOf(200_000), errAbbreviations},
		"many attributes":     {unitsAt(little, 4, 4, 0), append([]byte{1, 0x34, 0}, append(bytes.Repeat([]byte{0x1c, 0x19}, mostAttributes+1), 0, 0, 0)...), errAttributes},
		"many units":          {unitsAt(little, 4, 4, make([]int, mostUnits+1)...), abbreviationsOf(1), errUnits},
		"unit without a head": {[]byte{4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}, abbreviationsOf(1), errUnit},
		"unit without an end": {[]byte{12, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}, abbreviationsOf(1), errUnit},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(bytes.NewReader(written(t, part{".debug_info", elf.SHT_PROGBITS, 0, 0, 0, test.info}, part{".debug_abbrev", elf.SHT_PROGBITS, 0, 0, 0, test.abbreviations})))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = DWARF(f, 64<<20)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 30*mostAbbreviations {
				t.Errorf("%d bytes of memory", used)
			}
		})
	}
	if err := checkUnits(unitsAt(little, 4, 4, 0), abbreviationsOf(many-1)); err != nil {
		t.Errorf("a large table: %v", err)
	}
}
