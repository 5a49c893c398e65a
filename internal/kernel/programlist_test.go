// SPDX-License-Identifier: Apache-2.0

package kernel

import "testing"

// TestSelectedUntraceable: a program that cannot be traced is selected by its name, a function in whose place another
// program stands by its own, and the reason names that program.
func TestSelectedUntraceable(t *testing.T) {
	whole := UntraceableProgram{Program: LoadedProgram{11, "xdp_dispatcher"}, Why: errProgramUntyped}
	part := UntraceableProgram{Program: LoadedProgram{11, "xdp_dispatcher"}, Function: "prog0", Why: replacedError(20)}
	for _, c := range []struct {
		p    UntraceableProgram
		want string
	}{{whole, "bpf:xdp_dispatcher"}, {part, "bpf:prog0[xdp_dispatcher]"}} {
		if got := c.p.Selected().String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
		if !c.p.Selected().InProgram("11") {
			t.Errorf("%+v is in no program 11", c.p)
		}
	}
	if got, want := part.Why.Error(), "BPF program 20 is called in its place (freplace): 'bpf:*[20]' traces that"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
