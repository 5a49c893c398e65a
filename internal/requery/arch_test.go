// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

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
