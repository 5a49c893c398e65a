// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

// TestBeforePointer: the pointer that the kernel keeps before a function is no code of the function before it, though
// its lower half may read as an instruction. This one made Linux 7.3 panic.
func TestBeforePointer(t *testing.T) {
	const addr = 0xffff80008034e3f0
	text := binary.LittleEndian.AppendUint32(nil, 0xb4000041) // cbz x1, .+8
	for _, w := range []uint32{0xd65f03c0, 0x97fffffe} {      // ret; bl .-8, which does not return
		text = binary.LittleEndian.AppendUint32(text, w)
	}
	text = append(text, 0x1f, 0x20, 0x03, 0xd5) // nop
	code := slices.Clone(text)
	text = binary.LittleEndian.AppendUint64(text, 0xffffa7f754520d88)
	text = append(text, 0x1f, 0x20, 0x03, 0xd5)
	got := BeforePointer("arm64", text, addr)
	if !slices.Equal(got, code) {
		t.Errorf("% x, want % x", got, code)
	}
	if amd64 := BeforePointer("amd64", text, addr); len(amd64) != len(text) {
		t.Errorf("amd64: %d of %d bytes", len(amd64), len(text))
	}
	if odd := BeforePointer("arm64", text, addr+4); len(odd) != len(text) {
		t.Errorf("what is not aligned is taken for a pointer: %d of %d bytes", len(odd), len(text))
	}
	at := addr + uint64(len(code))
	for cut, want := range map[bool]bool{false: true, true: false} {
		part := text
		if cut {
			part = got
		}
		g, err := NewGraph(&Function{Arch: "arm64", Parts: []Part{{addr, part}}})
		if err != nil {
			t.Fatal(err)
		}
		sites := g.Sites(func(uint64) bool { return false })
		if has := slices.ContainsFunc(sites, func(s Site) bool { return s.Addr >= at }); has != want || len(sites) == 0 {
			t.Errorf("a probe on the pointer: %v, want %v: %+v", has, want, sites)
		}
	}
	for w := uint32(0xffff0000); w != 0; w++ {
		if x, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, w)); err == nil {
			t.Fatalf("%#x is an instruction: %v", w, x)
		}
	}
}
