// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// assembled returns code of arm64.
func assembled(words ...uint32) (text []byte) {
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, w)
	}
	return text
}

// TestOfARM64: conditions of the flags and of registers, on arm64.
func TestOfARM64(t *testing.T) {
	const z, n = 1 << 30, 1 << 31 // flags
	// ldr w1, [x0, #4]; cmp w1, #4; b.ne 1f; mov w0, #0; ret; 1: mov w0, #-22; ret
	keyed := assembled(0xb9400401, 0x7100103f, 0x54000061, 0x52800000, 0xd65f03c0, 0x128002a0, 0xd65f03c0)
	// tbnz w1, #3, 1f; mov w0, #0; ret; 1: mov w0, #-1; ret
	bit := assembled(0x37180061, 0x52800000, 0xd65f03c0, 0x12800000, 0xd65f03c0)
	// cbz w1, 1f; mov w0, #0; ret; 1: mov w0, #-22; ret
	none := assembled(0x34000061, 0x52800000, 0xd65f03c0, 0x128002a0, 0xd65f03c0)
	// cmp w1, #6; ccmp w1, #4, #4, ls; b.eq 1f; mov w0, #0; ret; 1: mov w0, #-22; ret
	two := assembled(0x7100183f, 0x7a449824, 0x54000060, 0x52800000, 0xd65f03c0, 0x128002a0, 0xd65f03c0)
	// mov w0, #-22; cmp w1, #3; csel w0, wzr, w0, ne; ret
	chosen := assembled(0x128002a0, 0x71000c3f, 0x1a8013e0, 0xd65f03c0)
	// stp x29, x30, [sp, #-16]!; mov x29, sp; bl helper; cmp w0, #0; b.lt 1f; mov w0, #0; 1: ldp x29, x30, [sp], #16; ret
	called := assembled(0xa9bf7bfd, 0x910003fd, 0x940003fe, 0x7100001f, 0x5400004b, 0x52800000, 0xa8c17bfd, 0xd65f03c0)
	// stp x29, x30, [sp, #-16]!; bl truth; tbz w0, #0, 1f; mov w0, #0; 2: ldp x29, x30, [sp], #16; ret; 1: mov w0, #-1; b 2b
	truth := assembled(0xa9bf7bfd, 0x94000bff, 0x36000080, 0x52800000, 0xa8c17bfd, 0xd65f03c0, 0x12800000, 0x17fffffd)
	// cmp w1, #5; b.hi 1f; adr x2, table; ldrb w2, [x2, w1, uxtw]; br x2; 1: mov w0, #-95; ret
	table := assembled(0x7100143f, 0x54000088, 0x100001c2, 0x38614842, 0xd61f0040, 0x12800bc0, 0xd65f03c0, 0x52800000, 0xd65f03c0)
	for _, tt := range []struct {
		name  string
		text  []byte
		steps []bpf.PathStep
		want  *Verdict // nil: nothing is said
	}{
		{"a member of a union", keyed, []bpf.PathStep{step(0, 0, 3)},
			&Verdict{Error: -22, Holds: "attr->key_size (3) != 4", Needed: "attr->key_size == 4", Or: []string{"attr->count"}}},
		{"without an error", keyed, []bpf.PathStep{step(0, z, 4)}, nil},
		{"a bit", bit, []bpf.PathStep{step(0, 8, 8)}, &Verdict{Error: -1, Holds: "(n (0x8) & 0x8) != 0", Needed: "(n & 0x8) == 0"}},
		{"a number that is 0", none, []bpf.PathStep{step(0, 0, 0)}, &Verdict{Error: -22, Holds: "n (0) == 0", Needed: "n != 0"}},
		{"two comparisons of which one decided", two, []bpf.PathStep{step(0, z, 9)}, &Verdict{Error: -22}},
		{"without a jump", chosen, nil, &Verdict{Error: -22, Decision: -1, Chosen: entry + 8}},
		{"what a function returned", called, []bpf.PathStep{step(0, n, 0xfffffff3)},
			&Verdict{Error: -13, Holds: "helper() (-EACCES) < 0", Needed: "helper() >= 0", Called: "helper", From: helper}},
		{"what a function returned without an error", called, []bpf.PathStep{step(0, 0, 3)}, nil},
		{"a truth value, with what is above it", truth, []bpf.PathStep{step(0, 0x100, 0x100)},
			&Verdict{Error: -1, Holds: "truth() (0) == 0", Needed: "truth() != 0"}},
		{"a table of jumps that nobody follows", table, []bpf.PathStep{step(0, 1<<29, 7)}, &Verdict{Error: -95, Decision: -1, Unsure: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, path := callOf(t, "arm64", tt.text, tt.steps...)
			e.Probe.Return = &layout.Half{}
			if tt.steps == nil {
				e.Probe.Return.Predicates = []layout.Predicate{{Term: compare(expr.OpEq, -22)}}
			}
			got, ok := Of(e, path)
			if ok != (tt.want != nil) {
				t.Fatalf("%v %+v", ok, got)
			}
			if tt.want == nil {
				return
			}
			if d := cmp.Diff(*tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDeduceARM64: which jump decided in a function that nobody has seen.
func TestDeduceARM64(t *testing.T) {
	// cmp w1, #2; b.gt 1f; tbnz w0, #3, 2f; bl helper; ret; 1: mov w0, #-22; ret; 2: mov w0, #-7; ret
	text := assembled(0x7100083f, 0x5400008c, 0x371800a0, 0x940003fd, 0xd65f03c0, 0x128002a0, 0xd65f03c0, 0x128000c0, 0xd65f03c0)
	for _, tt := range []struct {
		x0, x1 uint64
		failed unix.Errno
		want   string
	}{
		{0, 3, unix.EINVAL, "n (3) > 2"},
		{0, 0xffffffff, unix.EINVAL, ""}, // it is signed
		{0, 1, unix.EINVAL, ""},
		{8, 1, unix.E2BIG, "(attr & 0x8) != 0"},
	} {
		e, _ := callOf(t, "arm64", text)
		v, _, ok := Deduce(e.Probe, []code.Given{{Word: 0, Value: tt.x0, Size: 8}, {Word: 1, Value: tt.x1, Size: 4}}, nil, tt.failed)
		if ok != (tt.want != "") || ok && v.Holds != tt.want {
			t.Errorf("%#x, %d: %v %+v, want %q", tt.x0, tt.x1, ok, v, tt.want)
		}
	}
}

// TestSavedARM64: the parameters of a system call are in the registers of user space, the first one in orig_x0, too.
func TestSavedARM64(t *testing.T) {
	for _, tt := range []struct {
		load uint32
		want string
	}{
		{0xb9400001, "clockid (3) != 4"}, // ldr w1, [x0]
		{0xb9411001, "clockid (3) != 4"}, // ldr w1, [x0, #272]
		{0xb9400801, "flags (3) != 4"},   // ldr w1, [x0, #8]
		{0xb9411801, ""},                 // ldr w1, [x0, #280]
	} {
		// the load; cmp w1, #4; b.ne 1f; mov w0, #0; ret; 1: mov w0, #-22; ret
		e, path := callOf(t, "arm64", assembled(tt.load, 0x7100103f, 0x54000061, 0x52800000, 0xd65f03c0, 0x128002a0, 0xd65f03c0), step(0, 0, 3))
		e.Probe.Way.Syscall = []kernel.Field{{Decl: "int", Name: "clockid"}, {Decl: "int", Name: "flags"}}
		e.Probe.Return = &layout.Half{}
		if v, ok := Of(e, path); !ok || v.Holds != tt.want || v.Error != -22 {
			t.Errorf("%#x: %v %+v, want %q", tt.load, ok, v, tt.want)
		}
	}
}
