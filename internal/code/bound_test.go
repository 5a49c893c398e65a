// SPDX-License-Identifier: Apache-2.0

package code

import (
	"slices"
	"testing"
)

// TestWalkEnds: a loop of much code without a probe, which only a damaged recording has, is left. It has
// no end of its own.
func TestWalkEnds(t *testing.T) {
	const size = MaxCode / 4
	text := append(slices.Repeat([]byte{0x50}, size), 0xe9) // push %rax, and so on; jmp to the first
	back := ^uint32(len(text)+4) + 1
	text = append(text, byte(back), byte(back>>8), byte(back>>16), byte(back>>24))
	f := Function{Arch: "amd64", Parts: []Part{{0x1000, text}}}
	g, err := NewGraph(&f)
	if err != nil {
		t.Fatal(err)
	}
	if w := f.Walk(g, g.Sites(nil), nil, nil, false); w.Returned != nil || !w.Unsure {
		t.Errorf("%+v", w)
	}
}

// TestSearchesEnd: all searches of a walk together are bounded. Each jump has another way of much code that
// leads to the same result.
func TestSearchesEnd(t *testing.T) {
	const size = mostSteps * 2 / 3
	for jumps := 1; jumps <= 2; jumps++ {
		var text []byte
		for left := range jumps {
			behind := (jumps-1-left)*8 + 3
			text = append(text, 0x85, 0xff, 0x0f, 0x84, byte(behind), 0, 0, 0) // test %edi,%edi; je behind
		}
		text = append(text, 0x31, 0xc0, 0xc3) // xor %eax,%eax; ret
		text = append(append(text, slices.Repeat([]byte{0x90}, size)...), 0x31, 0xc0, 0xc3)
		f := Function{Arch: "amd64", Parts: []Part{{0x1000, text}}}
		g, err := NewGraph(&f)
		if err != nil {
			t.Fatal(err)
		}
		sites := g.Sites(nil)
		var hits []Hit
		for i := range sites {
			if !sites[i].Start {
				hits = append(hits, Hit{Site: i})
			}
		}
		if len(hits) != jumps {
			t.Fatalf("%d jumps: %+v", jumps, sites)
		}
		w := f.Walk(g, sites, hits, nil, false)
		if v := w.Returned; v == nil || v.Kind != Constant || v.N != 0 || w.Deciding != None {
			t.Fatalf("%d jumps: %+v", jumps, w)
		}
		if w.Unsure != (jumps > 1) {
			t.Errorf("%d jumps: unsure is %v", jumps, w.Unsure)
		}
	}
}
