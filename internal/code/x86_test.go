// SPDX-License-Identifier: Apache-2.0

package code

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestUD1: a ud1 has a ModRM byte and what that asks for. One that is cut off is unknown. Lengths are those that objdump has.
func TestUD1(t *testing.T) {
	for _, c := range []struct {
		code  string
		bytes int // 0: it is cut off
	}{
		{"\x0f\xb9\x3a", 3},
		{"\x48\x0f\xb9\x3a", 4},                         // ud1 (%rdx),%rdi: Linux 7
		{"\x67\x48\x0f\xb9\x3a", 5},                     // ud1 (%edx),%rdi
		{"\x67\x48\x0f\xb9\x7a\x10", 6},                 // ud1 0x10(%edx),%rdi
		{"\x4c\x0f\xb9\x04\x24", 5},                     // ud1 (%rsp),%r8
		{"\x0f\xb9\x3d\x01\x02\x03\x04", 7},             // ud1 0x4030201(%rip),%edi
		{"\x67\x48\x0f\xb9\x3d\x01\x02\x03\x04\x90", 9}, // ud1 0x4030201(%eip),%rdi
		{"\x0f\xb9", 0},
		{"\x48\x0f\xb9", 0},
		{"\x67\x48\x0f\xb9", 0},
		{"\x0f\xb9\x04", 0},
		{"\x48\x0f\xb9\x7a", 0},
		{"\x48\x0f\xb9\x3d\x01\x02", 0},
	} {
		x, err := decodeX86([]byte(c.code))
		switch {
		case c.bytes == 0:
			if err == nil {
				t.Errorf("% x: %v of %d bytes, want an error", c.code, x.Op, x.Len)
			}
		case err != nil || x.Op != x86asm.UD1 || x.Len != c.bytes:
			t.Errorf("% x: %v of %d bytes, %v; want UD1 of %d", c.code, x.Op, x.Len, err, c.bytes)
		}
	}
}
