// SPDX-License-Identifier: Apache-2.0

package symname

import "testing"

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		name   string
		offset uint64
		module string
		bare   string
		at     string
	}{
		{"vfs_read", 0x4c, "", "vfs_read", "vfs_read+0x4c"},
		{"vfs_read", 0, "", "vfs_read", "vfs_read+0x0"},
		{"nft_do_chain", 0x1f0, "nf_tables", "nft_do_chain [nf_tables]", "nft_do_chain+0x1f0 [nf_tables]"},
		{"a\x1b[2J", 1<<64 - 1, "m\n", `a\x1b[2J [m\n]`, `a\x1b[2J+0xffffffffffffffff [m\n]`},
	} {
		if got := string(Append([]byte("> "), tt.name, tt.module)); got != "> "+tt.bare {
			t.Errorf("%q, want %q", got, tt.bare)
		}
		if got := string(AppendAt([]byte("> "), tt.name, tt.offset, tt.module)); got != "> "+tt.at {
			t.Errorf("%q, want %q", got, tt.at)
		}
	}
}

func TestAllocs(t *testing.T) {
	dst := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() { AppendAt(dst, "nft_do_chain", 0x1f0, "nf_tables") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
