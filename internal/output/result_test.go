// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

func TestResult(t *testing.T) {
	minus := func(n uint64) uint64 { return -n }
	boolean := &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	ulong := &btf.Int{Name: "unsigned long", Size: 8}
	u8 := &btf.Int{Name: "u8", Size: 1}
	u64 := &btf.Int{Name: "long long unsigned int", Size: 8}
	verdict := &btf.Enum{Name: "verdict", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "PASS", Value: 2}, {Name: "WORSE", Value: 1<<64 - 3}}}
	for _, c := range []struct {
		result btf.Type
		class  layout.ErrorClass
		v      uint64
		want   string
	}{
		{nil, layout.NeverFails, minus(22), "[void]"},
		{boolean, layout.NeverFails, 1, "[true]"},
		{boolean, layout.NeverFails, 0xffff_8881_0000_0100, "[false]"}, // the register above is garbage
		{&btf.Typedef{Name: "bool", Type: boolean}, layout.NeverFails, 0xabc01, "[true]"},
		{&btf.Pointer{Target: long}, layout.FailsPointer, 0, "[NULL]"},
		{&btf.Pointer{Target: long}, layout.FailsPointer, minus(12), "[-ENOMEM]"},
		{&btf.Pointer{Target: long}, layout.FailsPointer, 0xffffc9000031e000, "[0xffffc9000031e000]"},
		{&btf.Pointer{Target: long}, layout.FailsPointer, minus(4095), "[-4095]"}, // an error without a name
		{&btf.Pointer{Target: long}, layout.FailsPointer, minus(4096), "[0xfffffffffffff000]"},
		{typeInt, layout.FailsInt32, minus(22), "[-EINVAL]"},
		{typeInt, layout.FailsInt32, 0xffffffea, "[-EINVAL]"}, // movl clears the upper half
		{typeInt, layout.FailsInt32, 22, "[22]"},
		{typeInt, layout.FailsInt32, minus(524), "[-ENOTSUPP]"},
		{typeInt, layout.FailsInt32, minus(4000), "[-4000]"}, // in the range of errors, but without a name
		{typeInt, layout.FailsInt32, minus(5000), "[-5000]"},
		{typeInt, layout.FailsInt32, 1 << 20, "[1048576]"},
		{typeInt, layout.FailsInt32, 1<<20 + 1, "[0x100001]"},
		{typeInt, layout.FailsInt32, minus(1 << 30), "[-1073741824]"},
		{typeInt, layout.FailsInt32, minus(1<<30 + 1), "[-1073741825]"},
		{long, layout.FailsInt64, minus(5000000000), "[-5000000000]"},
		{long, layout.FailsInt64, 1 << 63, "[-9223372036854775808]"},
		{long, layout.FailsInt64, minus(2), "[-ENOENT]"},
		{long, layout.FailsInt64, 0xfffffffe, "[0xfffffffe]"}, // of a long no error
		{ulong, layout.NeverFails, minus(22), "[-EINVAL]"},    // IS_ERR_VALUE, linux/err.h
		{ulong, layout.FailsInt64, minus(4095), "[-4095]"},
		{ulong, layout.FailsInt64, minus(4096), "[0xfffffffffffff000]"},
		{ulong, layout.NeverFails, 0xffffffea, "[0xffffffea]"},
		{&btf.Typedef{Name: "dma_addr_t", Type: u64}, layout.NeverFails, minus(1), "[0xffffffffffffffff]"}, // DMA_MAPPING_ERROR, linux/dma-mapping.h
		{typeUint, layout.NeverFails, 0xffffffea, "[0xffffffea]"},
		{u8, layout.NeverFails, 0xabcdef07, "[7]"},
		{verdict, layout.FailsInt32, 2, "[PASS]"},
		{verdict, layout.FailsInt32, 0xfffffffd, "[WORSE]"},
		{verdict, layout.FailsInt32, minus(22), "[-EINVAL]"},
		{verdict, layout.FailsInt32, 77, "[77]"},
		{&btf.Struct{Name: "pair", Size: 16}, layout.NeverFails, 5, "[{...}]"},
		{&btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}, layout.NeverFails, 0, "[{...}]"}, // the upper half is in rdx
		{&btf.Float{Name: "double", Size: 8}, layout.NeverFails, 5, "[{...}]"},                        // in xmm0
	} {
		f := &plan.Probe{Probe: layout.Probe{Result: c.result, Class: c.class}}
		if got := string(appendResult(nil, f, c.v)); got != c.want {
			t.Errorf("%v of %#x: %s, want %s", c.result, c.v, got, c.want)
		}
	}
}

// TestErrorsAlike: calls, on several lines and on one, and sessions name the same errors. A type shorter than int has none.
func TestErrorsAlike(t *testing.T) {
	minus := func(n uint64) uint64 { return -n }
	enum := func(size uint32, signed bool) btf.Type {
		return &btf.Enum{Name: "e", Size: size, Signed: signed, Values: []btf.EnumValue{{Name: "ONE", Value: 1}}}
	}
	integer := func(name string, size uint32, e btf.IntEncoding) btf.Type {
		return &btf.Int{Name: name, Size: size, Encoding: e}
	}
	// As enum cgroup_bpf_attach_type, which has CGROUP_BPF_ATTACH_TYPE_INVALID = -1.
	none := func(size uint32, signed bool, value uint64) btf.Type {
		return &btf.Enum{Name: "e", Size: size, Signed: signed, Values: []btf.EnumValue{{Name: "ONE", Value: 1}, {Name: "NONE", Value: value}}}
	}
	compact := lineStyle(Names{}, 160)
	compact.named = true
	for _, c := range []struct {
		result          btf.Type
		v               uint64 // the register, extended as codegen does
		text, line, end string
	}{
		{enum(4, false), 0xffffffea, "(enum e)4294967274 /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{enum(4, false), 1, "(enum e)ONE", "ONE", "[ONE]"},
		{enum(4, true), minus(22), "(enum e)-22 /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{enum(8, false), minus(22), "(enum e)18446744073709551594ULL /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{enum(8, true), minus(22), "(enum e)-22LL /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{enum(1, true), minus(22), "(enum e)-22", "-22", "[-22]"},
		{none(4, false, 0xffffffff), 0xffffffff, "(enum e)NONE", "NONE", "[NONE]"},
		{none(4, false, 0xffffffff), 0xfffffffe, "(enum e)4294967294 /* -ENOENT */", "-ENOENT", "[-ENOENT]"},
		{none(4, true, minus(1)), minus(1), "(enum e)NONE", "NONE", "[NONE]"},
		{none(8, false, minus(1)), minus(1), "(enum e)NONE", "NONE", "[NONE]"},
		{none(8, true, minus(22)), minus(22), "(enum e)NONE", "NONE", "[NONE]"},
		{integer("s8", 1, btf.Signed), minus(22), "(s8)-22", "-22", "[-22]"},
		{integer("short", 2, btf.Signed), minus(22), "(short)-22", "-22", "[-22]"},
		{typeInt, minus(22), "(int)-22 /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{typeUint, 0xffffffea, "(unsigned int)4294967274", "4294967274", "[0xffffffea]"},
		{integer("long", 8, btf.Signed), minus(22), "(long)-22 /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
		{integer("unsigned long", 8, 0), minus(22), "(unsigned long)18446744073709551594 /* -EINVAL */", "-EINVAL", "[-EINVAL]"},
	} {
		for style, want := range map[*style]string{callStyle(Names{}): c.text, compact: c.line} {
			v := value{result: true, style: style}
			if err := v.setScalar(c.result); err != nil {
				t.Fatal(err)
			}
			if got := string(v.appendScalar(nil, binary.LittleEndian.AppendUint64(nil, c.v))); got != want {
				t.Errorf("%v of %#x in a call: %s, want %s", c.result, c.v, got, want)
			}
		}
		f := &plan.Probe{Probe: layout.Probe{Result: c.result, Class: layout.ClassOf("f", c.result)}}
		if got := string(appendResult(nil, f, c.v)); got != c.end {
			t.Errorf("%v of %#x in a session: %s, want %s", c.result, c.v, got, c.end)
		}
	}
}

// TestErrorsInNotations: hex() and sym() change how a number is written, so its error is the same. Where an error has the
// place of the number, they have theirs.
func TestErrorsInNotations(t *testing.T) {
	minus := func(n uint64) uint64 { return -n }
	pointer, color := &btf.Pointer{Target: typeInt}, &btf.Enum{Name: "e", Size: 4, Values: []btf.EnumValue{{Name: "ONE", Value: 1}}}
	compact := lineStyle(Names{}, 160)
	compact.named = true
	for _, c := range []struct {
		result     btf.Type
		view       expr.View
		v          uint64
		text, line string
	}{
		{typeInt, expr.ViewHex, minus(2), "(int)0xfffffffe /* -ENOENT */", "0xfffffffe"},
		{typeInt, expr.ViewHex, 2, "(int)0x2", "0x2"},
		{typeUint, expr.ViewHex, 0xfffffffe, "(unsigned int)0xfffffffe", "0xfffffffe"},
		{typeInt, expr.ViewDec, minus(2), "(int)-2 /* -ENOENT */", "-ENOENT"},
		{typeInt, expr.ViewIP, minus(2), "(int)254.255.255.255", "254.255.255.255"},
		{color, expr.ViewHex, 0xfffffffe, "(enum e)0xfffffffe /* -ENOENT */", "0xfffffffe"},
		{pointer, expr.ViewSym, minus(2), "(int *)0xfffffffffffffffe /* -ENOENT */", "0xfffffffffffffffe"},
		{pointer, expr.ViewDefault, minus(2), "(int *)-ENOENT", "-ENOENT"},
	} {
		for style, want := range map[*style]string{callStyle(Names{}): c.text, compact: c.line} {
			v := value{result: true, view: c.view, style: style}
			if err := v.setScalar(c.result); err != nil {
				t.Fatal(err)
			}
			if got := string(v.appendScalar(nil, binary.LittleEndian.AppendUint64(nil, c.v))); got != want {
				t.Errorf("%v of %#x: %s, want %s", c.result, c.v, got, want)
			}
		}
	}
}

// TestResultMember: a member of what is returned in registers is a number as any other.
func TestResultMember(t *testing.T) {
	pointer, compact := &btf.Pointer{Target: typeInt}, lineStyle(Names{}, 160)
	compact.named = true
	for _, c := range []struct {
		term       *expr.Result
		text, line string
	}{
		{&expr.Result{T: typeInt, Width: 4}, "(int)-2 /* -ENOENT */", "-ENOENT"},
		{&expr.Result{T: typeInt, Width: 4, Part: true}, "(int)-2", "-2"},
		{&expr.Result{T: typeInt, Off: 4, Width: 4, Part: true}, "(int)-2", "-2"},
		{&expr.Result{T: pointer, Width: 8, Part: true}, "(int *)-ENOENT", "-ENOENT"}, // as any pointer
	} {
		for style, want := range map[*style]string{callStyle(Names{}): c.text, compact: c.line} {
			f := newField(&expr.Capture{Label: "x"}, style)
			if err := f.add(&layout.Slot{Term: c.term, Size: 8}); err != nil {
				t.Fatal(err)
			}
			if got := string(f.appendScalar(nil, binary.LittleEndian.AppendUint64(nil, ^uint64(1)))); got != want {
				t.Errorf("%+v: %s, want %s", c.term, got, want)
			}
		}
	}
}
