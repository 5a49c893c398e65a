// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/ksnoop/ksnoop/internal/unwind"
)

// TestFollowedCode: a stack with many addresses of large functions has no more code followed than is
// allowed. What was left out is found for the next stack.
func TestFollowedCode(t *testing.T) {
	const addr, addresses = 0x1000, 20
	code := bytes.Repeat([]byte{0x90}, mostFunction) // nop
	c := codeFrames{bytes.NewReader(code), []elf.ProgHeader{{Vaddr: addr, Filesz: mostFunction}}, func(uint64) (lo, hi uint64, ok bool) { return addr, addr + mostFunction, true }, map[uint64]*unwind.Row{}}
	for stack, want := range []int{mostFollowed / mostFunction, 2 * mostFollowed / mostFunction, addresses, addresses} {
		left, found := mostFollowed, 0
		for i := range uint64(addresses) {
			if c.row(addr+i, &left) != nil {
				found++
			}
		}
		if found != want || left < 0 {
			t.Errorf("stack %d: %d addresses are found, want %d; %d bytes are left", stack, found, want, left)
		}
	}
}
