// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/dw"
)

// testFrames is .debug_frame with one function at 0x1000: its frame begins 8
// bytes above register 7, after 1 byte 16, after 5 bytes above register 6, and
// after 0x20 bytes as at first. Its return address is signed, which does not
// move anything.
func testFrames() []byte {
	entry := func(id uint32, body ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(4+len(body)))
		return append(binary.LittleEndian.AppendUint32(b, id), body...)
	}
	common := entry(0xffffffff, 1, 0, 1, 0x78, 16, dw.CFADefCFA, 7, 8, dw.CFAOffset|16, 1)
	body := binary.LittleEndian.AppendUint64(nil, 0x1000)
	body = binary.LittleEndian.AppendUint64(body, 0x100)
	body = append(body, dw.CFANegateRAState, dw.CFANegateRAStateWithPC, dw.CFARememberState, dw.CFAAdvanceLoc|1, dw.CFADefCFAOffset, 16, dw.CFAOffset|6, 2, dw.CFAAdvanceLoc1, 4, dw.CFADefCFARegister, 6,
		dw.CFAAdvanceLoc2, 0x1b, 0, dw.CFARestoreState)
	return append(common, entry(0, body...)...)
}

func TestFrame(t *testing.T) {
	table := newFrameTable(testFrames(), 8)
	for addr, want := range map[uint64]rule{0x1000: {7, 8}, 0x1001: {7, 16}, 0x1004: {7, 16}, 0x1005: {6, 16}, 0x101f: {6, 16}, 0x1020: {7, 8}, 0x10ff: {7, 8}} {
		if got, ok := table.cfa(addr); !ok || got != want {
			t.Errorf("%#x: %+v, %v, want %+v", addr, got, ok, want)
		}
	}
	for _, addr := range []uint64{0, 0xfff, 0x1100} {
		if got, ok := table.cfa(addr); ok {
			t.Errorf("%#x: %+v", addr, got)
		}
	}
}

func TestParseLocation(t *testing.T) {
	u := unit{formSizes: formSizes{version: 5, addrSize: 8, offsetSize: 4}, main: &sections{}, sections: &sections{}}
	p := placer{info: &Info{options: Options{slide: 0x1000}}, unit: &u, addr: 0x1001, frames: newFrameTable(testFrames(), 8), base: []byte{dw.OpCallFrameCFA}}
	plus := func(reg, n uint64) []Op { return []Op{{OpRegister, reg}, {OpConst, n}, {Code: OpAdd}} }
	kernel := []byte{dw.OpAddr, 0, 0, 0, 0x81, 0xff, 0xff, 0xff, 0xff}
	for name, c := range map[string]struct {
		expr []byte
		want Place
	}{
		"register":            {[]byte{dw.OpReg0 + 5}, Place{Ops: []Op{{OpRegister, 5}}}},
		"register by number":  {[]byte{dw.OpRegx, 20}, Place{Ops: []Op{{OpRegister, 20}}}},
		"memory":              {[]byte{dw.OpBreg0 + 3, 16}, Place{plus(3, 16), true}},
		"memory, no offset":   {[]byte{dw.OpBregx, 3, 0}, Place{[]Op{{OpRegister, 3}}, true}},
		"sum":                 {[]byte{dw.OpBreg0 + 3, 0x7f, dw.OpStackValue}, Place{Ops: plus(3, ^uint64(0))}},
		"in the frame":        {[]byte{dw.OpFbreg, 0x70}, Place{[]Op{{OpRegister, 7}}, true}},
		"address of a local":  {[]byte{dw.OpFbreg, 0x78, dw.OpStackValue}, Place{Ops: plus(7, 8)}},
		"frame":               {[]byte{dw.OpCallFrameCFA, dw.OpStackValue}, Place{Ops: plus(7, 16)}},
		"literal":             {[]byte{dw.OpLit0 + 31, dw.OpStackValue}, Place{Ops: []Op{{OpConst, 31}}}},
		"signed constant":     {[]byte{dw.OpConst2s, 0xfe, 0xff, dw.OpStackValue}, Place{Ops: []Op{{OpConst, 1<<64 - 2}}}},
		"unsigned constant":   {[]byte{dw.OpConst2u, 0xfe, 0xff, dw.OpStackValue}, Place{Ops: []Op{{OpConst, 0xfffe}}}},
		"implicit":            {[]byte{dw.OpImplicitValue, 2, 1, 2}, Place{Ops: []Op{{OpConst, 0x201}}}},
		"moved":               {kernel, Place{[]Op{{OpConst, 0xffffffff81001000}}, true}},
		"of each CPU":         {[]byte{dw.OpAddr, 0, 1, 0, 0, 0, 0, 0, 0}, Place{[]Op{{OpConst, 0x100}}, true}},
		"followed":            {[]byte{dw.OpBreg0, 8, dw.OpDeref, dw.OpPlusUconst, 4}, Place{append(plus(0, 8), Op{OpLoad, 8}, Op{OpConst, 4}, Op{Code: OpAdd}), true}},
		"narrow":              {[]byte{dw.OpBreg0, 0, dw.OpDerefSize, 2, dw.OpStackValue}, Place{Ops: []Op{{OpRegister, 0}, {OpLoad, 2}}}},
		"converted":           {[]byte{dw.OpBreg0, 0, dw.OpConvert, 0, dw.OpStackValue}, Place{Ops: []Op{{OpRegister, 0}, {OpExtend, 8}}}},
		"nowhere":             {[]byte{}, Place{}},
		"two values":          {[]byte{dw.OpLit0, dw.OpLit0, dw.OpStackValue}, Place{}},
		"too few":             {[]byte{dw.OpLit0, dw.OpPlus, dw.OpStackValue}, Place{}},
		"a piece":             {[]byte{dw.OpReg0, 0x93, 4}, Place{}},
		"of the function":     {[]byte{0xa3, 1, dw.OpReg0 + 5, dw.OpStackValue}, Place{}},
		"behind the end":      {[]byte{dw.OpConst4u, 1, 2}, Place{}},
		"implicit, too large": {[]byte{dw.OpImplicitValue, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Place{}},
		"without end":         {slices.Repeat([]byte{dw.OpLit0, dw.OpPlusUconst, 1}, 1000), Place{}},
	} {
		if diff := cmp.Diff(c.want, p.parse(c.expr)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestLocationList: of several locations that hold at an address the first counts,
// one without any address among them.
func TestLocationList(t *testing.T) {
	list := []byte{
		locBaseAddress, 0, 0x10, 0, 0, 0, 0, 0, 0,
		locOffsetPair, 0, 4, 1, dw.OpReg0,
		locOffsetPair, 4, 4, 1, dw.OpReg0 + 1,
		locOffsetPair, 4, 8, 1, dw.OpReg0 + 2,
		locStartLength, 0x20, 0x10, 0, 0, 0, 0, 0, 0, 8, 1, dw.OpReg0 + 3,
		locDefault, 1, dw.OpReg0 + 4,
		locEndOfList,
	}
	s := &sections{loclists: list}
	u := unit{formSizes: formSizes{version: 5, addrSize: 8, offsetSize: 4}, main: s, sections: s}
	for addr, want := range map[uint64]byte{0x1000: 0, 0x1003: 0, 0x1004: 1, 0x1005: 2, 0x1008: 4, 0x1020: 3, 0x1027: 3, 0x1028: 4} {
		u.refill()
		p := placer{unit: &u, addr: addr}
		if expr, ok := p.list(0); !ok || len(expr) != 1 || expr[0] != dw.OpReg0+want {
			t.Errorf("%#x: %x, %v, want register %d", addr, expr, ok, want)
		}
	}
	s.loc = binary.LittleEndian.AppendUint64(s.loc, ^uint64(0)) // a base address
	for _, n := range []uint64{0x1000, 4, 4} {
		s.loc = binary.LittleEndian.AppendUint64(s.loc, n)
	}
	s.loc = append(s.loc, 1, 0, dw.OpReg0+1)
	for _, n := range []uint64{4, 8} {
		s.loc = binary.LittleEndian.AppendUint64(s.loc, n)
	}
	s.loc = append(s.loc, 1, 0, dw.OpReg0+2)
	s.loc = append(s.loc, make([]byte, 16)...)
	for addr, want := range map[uint64]byte{0x1003: 0, 0x1004: 1, 0x1005: 2, 0x1008: 0} {
		u.refill()
		p := placer{unit: &u, addr: addr}
		if expr, ok := p.listV4(0); ok != (want != 0) || ok && expr[0] != dw.OpReg0+want {
			t.Errorf("version 4, %#x: %x, %v, want register %d", addr, expr, ok, want)
		}
	}
}
