// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// TestTaggedTarget: what -A has read through an argument was in user space, or in the kernel, as bit 63 of its address says; on arm64, whose
// user space may tag pointers in their highest byte (tagged-pointers.rst), as bit 55 does.
func TestTaggedTarget(t *testing.T) {
	const user, tagged, kernel, taggedKernel = 0x0000_7fff_1234_5678, 0xb400_7fff_1234_5678, 0xffff_8000_1234_5678, 0xf8ff_8000_1234_5678
	for _, c := range []struct {
		arch  string
		addr  uint64
		space expr.Space
	}{
		{"amd64", user, expr.User}, {"amd64", kernel, expr.Kernel},
		{"arm64", user, expr.User}, {"arm64", tagged, expr.User}, {"arm64", kernel, expr.Kernel}, {"arm64", taggedKernel, expr.Kernel},
	} {
		for _, space := range []expr.Space{expr.User, expr.Kernel} {
			m := machine{arch: c.arch, args: []session.Arg{{Value: binary.LittleEndian.AppendUint64(nil, c.addr), Target: []byte("abcdefgh")}}}
			b, ok := m.raw(&source{part: &part{target: true}, mem: &region{space: space, size: 8}})
			if want := space == c.space; ok != want || ok && string(b) != "abcdefgh" {
				t.Errorf("%s, %#x as of space %v: %q, %v", c.arch, c.addr, space, b, ok)
			}
			// The pointer is recorded, and not what it points to.
			m.sources = []source{{part: &part{}, slot: layout.Slot{Size: 8}}}
			if got, want := m.unreadable(&source{term: &expr.Object{}, mem: &region{space: space, size: 8}}), space != c.space; got != want {
				t.Errorf("%s, %#x as of space %v: unreadable %v", c.arch, c.addr, space, got)
			}
		}
	}
}

// TestArchitectureOfConstants: a constant has the value of the machine that was recorded, which
// arch/arm64/include/uapi/asm/fcntl.h defines.
func TestArchitectureOfConstants(t *testing.T) {
	view := packets(t)
	for arch, want := range map[string]string{"amd64": "(count == 65536)", "arm64": "(count == 16384)"} {
		q := Question{Specs: parse(t, "vfs_read(count == O_DIRECTORY)"), Arch: arch}
		a, err := New(planOf(t, view, layout.MethodFentry, "vfs_read(count)"), view, q)
		if err != nil {
			t.Fatal(err)
		}
		p := a.Plan().Probes[0]
		if got := expr.FormatTerm(p.Items[0].Predicate, func(int) string { return "count" }); got != want {
			t.Errorf("%s: %s, want %s", arch, got, want)
		}
	}
}
