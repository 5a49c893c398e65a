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

func TestAppendBehind(t *testing.T) {
	name := func(dst []byte, addr uint64) []byte {
		if addr == 1 {
			return dst
		}
		return append(dst, "vfs_read+0x10"...)
	}
	for addr, want := range map[uint64]string{1: "0x1", 2: "0x2 <vfs_read+0x10>"} {
		if got := string(AppendBehind([]byte(want[:3]), addr, name)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAllocs(t *testing.T) {
	dst := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() { AppendAt(dst, "nft_do_chain", 0x1f0, "nf_tables") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
