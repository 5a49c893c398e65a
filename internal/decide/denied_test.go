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

// TestBefore: what was tested before somebody asked for a capability, and would have led to where having it leads.
func TestBefore(t *testing.T) {
	// sub $8, %rsp; cmpl $4, 4(%rdi); jne 2f; cmp $3, %esi; je 3f; call truth; test %al, %al; jne 1f; mov $-11, %eax; add $8, %rsp; ret;
	// 1: xor %eax, %eax; add $8, %rsp; ret; 2: mov $-22, %eax; add $8, %rsp; ret; 3: jmp 1b
	limited := []byte{0x48, 0x83, 0xec, 0x08, 0x83, 0x7f, 0x04, 0x04, 0x75, 0x1f, 0x83, 0xfe, 0x03, 0x74, 0x24, 0xe8, 0xec, 0x2f, 0, 0, 0x84, 0xc0, 0x75, 0x0a, 0xb8, 0xf5, 0xff, 0xff, 0xff,
		0x48, 0x83, 0xc4, 0x08, 0xc3, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xeb, 0xed}
	for _, tt := range []struct {
		name, asks string
		steps      []bpf.PathStep
		want       []Verdict
	}{
		{"the limit is reached", "truth", []bpf.PathStep{step(0, zero, 4), step(1, 0, 9), step(2, zero, 0)}, []Verdict{{Error: -11, Decision: 1, Holds: "n (9) != 3", Needed: "n == 3"}}},
		{"another function", "helper", []bpf.PathStep{step(0, zero, 4), step(1, 0, 9), step(2, zero, 0)}, nil},
		{"nobody has asked", "truth", []bpf.PathStep{step(0, 0, 5)}, nil},
	} {
		e, path := call(t, limited, tt.steps...)
		v, ok := Of(e, path)
		if !ok || v.Decision != len(tt.steps)-1 {
			t.Fatalf("%s: %+v", tt.name, v)
		}
		if d := cmp.Diff(tt.want, Before(e, path, &v, func(name string) bool { return name == tt.asks })); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}
