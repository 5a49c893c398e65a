// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A function of a module that lies before the kernel, or too far behind it for
// the kernel to count, is named.
func TestPlaceOfProbe(t *testing.T) {
	const base = 0xffffdb42dfa10000
	for want, f := range map[string]kernel.Function{
		"_stext+0":          {Name: "a", Addr: base},
		"_stext+4294967295": {Name: "b", Addr: base + 0xffffffff, Module: "above"},
		"far:c":             {Name: "c", Addr: base + 0x100000000, Module: "far"},
		"below:d.isra.0":    {Name: "d.isra.0", Addr: base - 8, Module: "below"},
	} {
		if got := string(appendPlace([]byte("p:x "), &f, base)); got != "p:x "+want {
			t.Errorf("%s: %q, want %q", f.Name, got, want)
		}
	}
}
