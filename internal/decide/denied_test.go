// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestDenied: the test of a capability that comes before an exception.
func TestDenied(t *testing.T) {
	// sub $8, %rsp; nop; call truth; test %al, %al; jne 1f; cmpl $18, (%rsp); je 1f; mov $-1, %eax; add $8, %rsp; ret;
	// 1: xor %eax, %eax; add $8, %rsp; ret
	excepted := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x2f, 0, 0, 0x84, 0xc0, 0x75, 0x10, 0x83, 0x3c, 0x24, 0x12, 0x74, 0x0a, 0xb8, 0xff, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3,
		0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	// likewise without the comparison
	alone := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x2f, 0, 0, 0x84, 0xc0, 0x75, 0x0a, 0xb8, 0xff, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3,
		0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	for _, tt := range []struct {
		name  string
		text  []byte
		steps []bpf.PathStep
		asks  string
		want  *Verdict
	}{
		{"an exception behind it", excepted, []bpf.PathStep{step(0, zero, 0), step(1, 0, 9)}, "truth", &Verdict{Error: -1, Holds: "truth() (0) == 0", Needed: "truth() != 0"}},
		{"another function", excepted, []bpf.PathStep{step(0, zero, 0), step(1, 0, 9)}, "helper", nil},
		{"the last decision itself", alone, []bpf.PathStep{step(0, zero, 0)}, "truth", nil},
	} {
		e, path := call(t, tt.text, tt.steps...)
		v, ok := Of(e, path)
		if !ok || v.Decision != len(tt.steps)-1 {
			t.Fatalf("%s: %+v", tt.name, v)
		}
		got, ok := Denied(e, path, &v, func(name string) bool { return name == tt.asks })
		if ok != (tt.want != nil) {
			t.Errorf("%s: %+v", tt.name, got)
		} else if ok {
			if d := cmp.Diff(*tt.want, got); d != "" {
				t.Errorf("%s: %s", tt.name, d)
			}
		}
	}
}
