// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"testing"
)

// Codes of the abbreviations of hostile units.
const (
	rootListed = iota + 1
	rootUnlisted
	leaf // an entry of two bytes
	outer
	inner // an entry of two bytes, within the one before
	spread
)

var hostileAbbrevs = []byte{
	rootListed, 0x11, 1, attrStmtList, formSecOffset, attrLowPC, formAddrx, attrHighPC, formData4, 0, 0,
	rootUnlisted, 0x11, 1, 0, 0,
	leaf, tagSubprogram, 0, attrLowPC, formAddrx, attrHighPC, formImplicitConst, 0x20, 0, 0,
	outer, tagSubprogram, 1, attrLowPC, formAddrx, attrHighPC, formImplicitConst, 0x20, 0, 0,
	inner, tagInlinedSubroutine, 1, attrLowPC, formAddrx, attrHighPC, formImplicitConst, 0x20, 0, 0,
	spread, tagSubprogram, 0, attrRanges, formSecOffset, 0, 0,
	0,
}

// hostileCode is where the code of the first unit is. That of the second follows, and each is as long.
const hostileCode = 0x1000

// hostileUnit returns unit n of DWARF 5, whose line program is at an offset.
func hostileUnit(n byte, line int, root byte, entries ...byte) []byte {
	body := []byte{5, 0, unitCompile, 8, 0, 0, 0, 0, root}
	if root == rootListed {
		body = append(binary.LittleEndian.AppendUint32(body, uint32(line)), n)
		body = binary.LittleEndian.AppendUint32(body, hostileCode)
	}
	body = append(body, entries...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// hostileLines returns the line program of unit n. It has so many rows at the same address, each of one byte.
func hostileLines(n, rows int) []byte {
	body := []byte{4, 0, 8, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0} // version 4; opcode k advances by k-1 bytes
	body = binary.LittleEndian.AppendUint64(append(body, 0, 9, lineExtSetAddress), uint64(hostileCode*(n+1)))
	body = append(body, bytes.Repeat([]byte{1}, rows)...)
	body = append(body, bytes.Repeat([]byte{17}, hostileCode/16)...)
	body = append(body, 0, 1, lineExtEndSequence)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// hostileInfo opens a file with debug info that may take so much memory.
func hostileInfo(t *testing.T, info, abbrev, line, ranges []byte, room int64) (*Info, *Memory) {
	t.Helper()
	addr := make([]byte, 8) // a header
	for n := range uint64(2) {
		addr = binary.LittleEndian.AppendUint64(addr, hostileCode*(n+1))
	}
	var parts []part
	for name, contents := range map[string][]byte{".debug_info": info, ".debug_abbrev": abbrev, ".debug_line": line, ".debug_addr": addr, ".debug_rnglists": ranges} {
		parts = append(parts, part{name: name, kind: elf.SHT_PROGBITS, contents: contents})
	}
	memory := NewMemory(room)
	i, err := newInfo(written(t, elf.ET_DYN, parts...), Options{Memory: memory}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i, memory
}

// TestBuffers: what takes little of a file does not take much memory.
func TestBuffers(t *testing.T) {
	const room, many = 16 << 20, 4 << 20
	const full = "all debug info together takes more than 16 MiB of memory"
	functions := bytes.Repeat([]byte{leaf, 0}, many/2)
	var abbrevs []byte
	for code := range uint64(many / 4) {
		abbrevs = append(binary.AppendUvarint(abbrevs, code+10), 0, 0, 0, 0)
	}
	for _, test := range []struct {
		name                 string
		info, abbrev, ranges []byte
		rows, frames         int
		want                 string
	}{
		{"few", hostileUnit(0, 0, rootListed, leaf, 0), nil, nil, 10, 1, ""},
		{"rows", hostileUnit(0, 0, rootListed), nil, nil, many, 0, full},
		{"functions", hostileUnit(0, 0, rootListed, functions...), nil, nil, 0, 0, full},
		{"functions of a unit without addresses", hostileUnit(0, 0, rootUnlisted, functions...), nil, nil, 0, 0, full},
		{"units", append(bytes.Repeat([]byte{1, 0, 0, 0, 0}, many/4), hostileUnit(0, 0, rootListed)...), nil, nil, 0, 0, full},
		{"inlined calls", hostileUnit(0, 0, rootListed, append([]byte{outer, 0}, bytes.Repeat([]byte{inner, 0}, many/2)...)...), nil, nil, 0, 0, "more than 1024 calls are inlined into each other"},
		{"ranges", hostileUnit(0, 0, rootListed, spread, 0, 0, 0, 0), nil, bytes.Repeat([]byte{rangeStartxLength, 0, 1}, many/2), 0, 0, "an entry has more than 1048576 ranges of addresses"},
		{"abbreviations", hostileUnit(0, 0, rootListed, leaf, 0), abbrevs, nil, 0, 0, ""},
		{"attributes", hostileUnit(0, 0, rootListed, leaf, 0), append([]byte{10, 0, 0}, bytes.Repeat([]byte{1, formFlagPresent}, many/2)...), nil, 0, 0, ""},
	} {
		abbrev := append(bytes.Clone(hostileAbbrevs[:len(hostileAbbrevs)-1]), test.abbrev...)
		info, memory := hostileInfo(t, test.info, append(abbrev, 0), hostileLines(0, test.rows), test.ranges, room)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		frames := info.Lookup(nil, hostileCode+8)
		runtime.ReadMemStats(&after)
		if err := info.Err(); len(frames) != test.frames || test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%s: %d frames, %v, want %s", test.name, len(frames), err, test.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 8*room {
			t.Errorf("%s: %d bytes of memory", test.name, used)
		}
		if err := info.Close(); err != nil || memory.left.Load() != room {
			t.Errorf("%s: %v, %d bytes are not given back", test.name, err, room-memory.left.Load())
		}
	}
}

// TestRoomOfOtherUnits: a unit for which there is no room takes that of others. Look-ups of many addresses keep none.
func TestRoomOfOtherUnits(t *testing.T) {
	const room, rows = 8 << 20, 300_000
	first := hostileLines(0, rows)
	units := append(hostileUnit(0, 0, rootListed, leaf, 0), hostileUnit(1, len(first), rootListed, leaf, 1)...)
	info, memory := hostileInfo(t, units, hostileAbbrevs, append(first, hostileLines(1, rows)...), nil, room)
	defer info.Close()
	addrs := []uint64{hostileCode + 8, 2*hostileCode + 8}
	if all := info.LookupAll(addrs[:1]); len(all[0]) != 1 {
		t.Errorf("%v, %v", all, info.Err())
	}
	if taken := room - memory.left.Load(); taken > 1<<10 {
		t.Errorf("%d bytes are not given back", taken)
	}
	for range 3 {
		for _, addr := range addrs {
			if frames := info.Lookup(nil, addr); len(frames) != 1 || info.Err() != nil {
				t.Errorf("%#x: %v, %v", addr, frames, info.Err())
			}
		}
	}
	if taken := room - memory.left.Load(); taken < 16*rows-ownBuffers {
		t.Errorf("%d rows take %d bytes beside their own", rows, taken)
	}
}

// TestLongProgram: a sparse file may have line programs of any length, which do nothing.
func TestLongProgram(t *testing.T) {
	for length, want := range map[int]bool{mostProgram: true, mostProgram + 1: false} {
		line := make([]byte, len(hostileLines(0, 0))+length) // never touched, so it takes no memory
		copy(line, hostileLines(0, 0))
		const header = 18
		binary.LittleEndian.PutUint32(line, uint32(header+length-4))
		u := &unit{main: &sections{line: line}}
		if _, ok := u.lines.header.read(u); ok != want {
			t.Errorf("a program of %d bytes is read: %t, want %t", length, ok, want)
		}
	}
}

// TestOwnBuffers: what other files have taken does not keep a file from being read whose units are not large.
func TestOwnBuffers(t *testing.T) {
	const room, rows = 8 << 20, 100_000
	info, memory := hostileInfo(t, hostileUnit(0, 0, rootListed, leaf, 0), hostileAbbrevs, hostileLines(0, rows), nil, room)
	if frames := info.Lookup(nil, 1); len(frames) > 0 { // reads where units are
		t.Errorf("%v", frames)
	}
	left := memory.left.Swap(0)
	if frames := info.Lookup(nil, hostileCode+8); len(frames) != 1 || info.Err() != nil {
		t.Errorf("%v, %v", frames, info.Err())
	}
	if err := info.Close(); err != nil || memory.left.Load() != room-left {
		t.Errorf("%v, %d bytes are given back of %d", err, memory.left.Load(), room-left)
	}
}
