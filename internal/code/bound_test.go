// SPDX-License-Identifier: Apache-2.0

package code

import (
	"slices"
	"testing"
	"time"
)

// TestWalkEnds: a loop of much code without a probe, which only a damaged recording has, is left.
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
	begin := time.Now()
	if w := f.Walk(g, g.Sites(nil), nil, nil); w.Returned != nil || !w.Unsure {
		t.Errorf("%+v", w)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
