// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"testing"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// assembled returns code of arm64.
func assembled(words ...uint32) (text []byte) {
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, w)
	}
	return text
}

const (
	nopARM64 = 0xd503201f
	retARM64 = 0xd65f03c0
)

// TestConditionsARM64: what a condition says must hold for the very numbers by which the jump goes that way.
// What the jump does is told by the flags, which TestInstructionsARM64 compares with those of QEMU.
func TestConditionsARM64(t *testing.T) {
	for _, tt := range []struct {
		text  string
		w     uint32
		named int // of the 14 conditions, those that have a relation
	}{
		{"cmp x0, x1", 0xeb01001f, 10},
		{"cmp w0, w1", 0x6b01001f, 10},
		{"cmp x0, #5", 0xf100141f, 10},
		{"cmp w0, #0", 0x7100001f, 8},
		{"cmp x0, x1, lsl #3", 0xeb010c1f, 0},
		{"cmp x0, w1, uxtb", 0xeb21001f, 10},
		{"cmp w1, w0, uxth", 0x6b20203f, 10},
		{"cmn x0, #22", 0xb100581f, 10},
		{"cmn w0, #1", 0x3100041f, 10},
		{"cmn x0, #1, lsl #12", 0xb140041f, 10},
		{"cmn x0, x1", 0xab01001f, 0},
		{"tst x0, #0xff0", 0xf27c1c1f, 8},
		{"tst w0, #0x80000000", 0x7201001f, 8},
		{"tst x0, x1", 0xea01001f, 8},
		{"tst x0, x0", 0xea00001f, 8},
		{"tst w1, w1", 0x6a01003f, 8},
		{"ands w0, w0, #7", 0x72000800, 8},
		{"ands x2, x0, #0xf000", 0xf2740c02, 8},
		{"bics x2, x0, x1", 0xea210002, 0},
		{"subs x0, x0, #1", 0xf1000400, 10},
		{"subs w2, w0, w1", 0x6b010002, 10},
		{"subs x1, x0, x1", 0xeb010001, 10},
		{"adds x0, x0, #4", 0xb1001000, 10},
		{"negs x2, x1", 0xeb0103e2, 10},
		{"ccmp x0, #1, #0, al", 0xfa41e800, 0},
		{"adcs x0, x0, x1", 0xba010000, 0},
	} {
		named := 0
		for cond := range uint32(14) {
			// the instruction; b.cond 1f; ret; 1: ret
			if checkCondition(t, tt.text, assembled(tt.w, 0x54000040|cond, retARM64, retARM64), 1) {
				named++
			}
		}
		if named != tt.named {
			t.Errorf("%s: %d conditions have a relation, want %d", tt.text, named, tt.named)
		}
	}
	for _, tt := range []struct {
		text string
		w    uint32
	}{
		{"cbz x0, .+8", 0xb4000040}, {"cbz w0, .+8", 0x34000040}, {"cbnz x1, .+8", 0xb5000041}, {"cbnz w1, .+8", 0x35000041},
		{"tbz w0, #0, .+8", 0x36000040}, {"tbnz w0, #31, .+8", 0x37f80040}, {"tbz x0, #63, .+8", 0xb6f80040}, {"tbnz x0, #33, .+8", 0xb7080040},
		{"tbz w0, #31, .+8", 0x36f80040}, {"tbnz w1, #4, .+8", 0x37200041},
	} {
		if !checkCondition(t, tt.text, assembled(tt.w, retARM64, retARM64), 0) {
			t.Errorf("%s: no relation", tt.text)
		}
	}
}

// checkCondition checks the condition of the jump of a function, whose instruction it is, for all numbers. It
// reports whether there is one.
func checkCondition(t *testing.T, name string, text []byte, jump int) bool {
	t.Helper()
	f := Function{Arch: "arm64", Parts: []Part{{0x1000, text}}}
	g, err := NewGraph(&f)
	if err != nil {
		t.Fatal(err)
	}
	sites := g.Sites(nil)
	if len(sites) != 1 {
		t.Fatalf("%s: %d sites", name, len(sites))
	}
	var conditions [2]*Condition
	for i, taken := range []bool{false, true} {
		conditions[i] = f.Walk(g, sites, []Hit{{0, taken}}, nil, false).Conditions[0]
	}
	if c := conditions[0]; c == nil || c.Relation == NoRelation || c.Left.Value == nil || c.Right.Value == nil {
		return false
	}
	for _, a := range arithmeticNumbers {
		for _, b := range arithmeticNumbers {
			m := imagined{machine: machineOf("arm64"), words: make([]known, len(ptregs.Names("arm64"))), stack: map[int64]slot{}}
			m.words[0], m.words[1] = known{number, a, 8}, known{number, b, 8}
			if jump > 0 {
				m.executeARM64(&f, &g.Instructions[0])
			}
			word, ok := m.decides(sites[0].Test)
			if !ok {
				t.Fatalf("%s of %#x, %#x: the jump is not known", name, a, b)
			}
			taken := sites[0].Test.Taken(word)
			c := conditions[0]
			if taken {
				c = conditions[1]
			}
			if !c.holds(a, b) {
				t.Fatalf("%s; %s of %#x, %#x, taken %v: %+v does not hold", name, f.Text(sites[0].Addr), a, b, taken, c)
			}
			for i := range sites[0].Operands { // those of the compare, when the jump is reached
				for _, side := range [...]*Side{&c.Left, &c.Right} {
					if side.Operand == i && low(side.Value.number(a, b), c.Size) != sites[0].Operands[i].Part(m.words[sites[0].Operands[i].Base].v) {
						t.Fatalf("%s of %#x, %#x: operand %d is another one: %+v", name, a, b, i, side)
					}
				}
			}
		}
	}
	return true
}

// number returns what a value is if the first two registers hold a and b.
func (v *Value) number(a, b uint64) uint64 {
	switch v.Kind {
	case Argument:
		return [...]uint64{a, b}[v.Word]
	case Masked:
		return v.Base.number(a, b) & uint64(v.N)
	case Sum:
		return v.Base.number(a, b) + uint64(v.N)
	}
	return uint64(v.N)
}

// holds reports whether a condition holds if the first two registers hold a and b.
func (c *Condition) holds(a, b uint64) bool {
	left, right := low(c.Left.Value.number(a, b), c.Size), low(c.Right.Value.number(a, b), c.Size)
	if c.Common {
		left, right = left&right, 0
	}
	less, equal := left < right, left == right
	if !c.Unsigned {
		less = int64(signExtend(left, c.Size)) < int64(signExtend(right, c.Size))
	}
	return [...]bool{false, equal, !equal, less, !less, !less && !equal, less || equal}[c.Relation]
}

// TestReturnedARM64: what a call has returned, by its code and its way.
func TestReturnedARM64(t *testing.T) {
	const entry, helper = 0x1000, 0x1100
	callees := Callees{{Addr: helper, Kind: Returning}}
	for _, tt := range []struct {
		name   string
		text   []byte
		taken  []bool // at each jump
		faults []Fault
		want   *Value
		left   *Value // of the last condition
	}{
		// ldr w1, [x0, #4]; cmp w1, #4; b.ne 1f; mov w0, #0; ret; 1: mov w0, #-22; ret
		{name: "a constant behind a jump", text: assembled(0xb9400401, 0x7100103f, 0x54000061, 0x52800000, retARM64, 0x128002a0, retARM64), taken: []bool{true},
			want: &Value{Kind: Constant, N: 0xffffffea}, left: &Value{Kind: Memory, N: 4, Size: 4}},
		// paciasp; stp x29, x30, [sp, #-16]!; bl helper; tbnz w0, #31, 1f; mov w0, wzr; 1: ldp x29, x30, [sp], #16; autiasp; ret
		{name: "of a function", text: assembled(0xd503233f, 0xa9bf7bfd, 0x9400003e, 0x37f80040, 0x2a1f03e0, 0xa8c17bfd, 0xd50323bf, retARM64), taken: []bool{true},
			want: &Value{Kind: Result, Target: helper}, left: &Value{Kind: Result, Target: helper}},
		// sub sp, sp, #32; mov x1, #-12; stp x1, x2, [sp, #8]; add x0, sp, #24; bl helper; ldr x0, [sp, #8]; add sp, sp, #32; ret
		{name: "kept on the stack below what a function may change", text: assembled(0xd10083ff, 0x92800161, 0xa9008be1, 0x910063e0, 0x9400003c, 0xf94007e0, 0x910083ff, retARM64),
			want: &Value{Kind: Constant, N: -12}},
		// sub sp, sp, #32; mov x1, #-12; str x1, [sp, #24]; add x0, sp, #8; bl helper; ldr x0, [sp, #24]; add sp, sp, #32; ret
		{name: "kept where a function may change it", text: assembled(0xd10083ff, 0x92800161, 0xf9000fe1, 0x910023e0, 0x9400003c, 0xf9400fe0, 0x910083ff, retARM64),
			want: &Value{Kind: Opaque}},
		// mov x1, #-12; str x1, [sp, #-16]!; str wzr, [sp, #4]; ldr x0, [sp], #16; ret
		{name: "of which a half was written over", text: assembled(0x92800161, 0xf81f0fe1, 0xb90007ff, 0xf84107e0, retARM64),
			want: &Value{Kind: Opaque}},
		// mov w1, #-22; cmp w2, #3; csel w0, w1, wzr, eq; ret
		{name: "chosen without a jump", text: assembled(0x128002a1, 0x71000c5f, 0x1a9f0020, retARM64),
			want: &Value{Kind: Chosen}},
		// and w0, w1, #0xff; cmp w0, #3; b.eq 1f; nop; 1: ret
		{name: "a byte of an argument", text: assembled(0x12001c20, 0x71000c1f, 0x54000040, nopARM64, retARM64), taken: []bool{true},
			want: &Value{Kind: Masked, N: 0xff}, left: &Value{Kind: Masked, N: 0xff}},
		// mov w0, #0; ldtr w1, [x2]; ret: what faults goes on behind it, with the error in w0
		{name: "what a fault may have set", text: assembled(0x52800000, 0xb8400841, retARM64), faults: []Fault{{entry + 4, entry + 8}},
			want: nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Function{Arch: "arm64", Parts: []Part{{entry, tt.text}}, Faults: tt.faults}
			g, err := NewGraph(&f)
			if err != nil {
				t.Fatal(err)
			}
			sites := g.Sites(nil)
			var hits []Hit
			for i := range sites {
				hits = append(hits, Hit{i, len(tt.taken) > 0 && tt.taken[0]})
			}
			w := f.Walk(g, sites, hits, callees, false)
			same := func(got, want *Value) bool {
				return got == want || got != nil && want != nil && got.Kind == want.Kind && got.N == want.N && got.Target == want.Target && got.Size == want.Size
			}
			if !same(w.Returned, tt.want) {
				t.Errorf("%+v, want %+v", w.Returned, tt.want)
			}
			if tt.left != nil && !same(w.Conditions[len(hits)-1].Left.Value, tt.left) {
				t.Errorf("condition %+v, want %+v", w.Conditions[len(hits)-1], tt.left)
			}
		})
	}
}

// TestKeptARM64: which operand of a compare is still what it was when the jump is reached.
func TestKeptARM64(t *testing.T) {
	for _, tt := range []struct {
		text string
		w    uint32
		kept bool
	}{
		{"ldr w2, [x0]", 0xb9400002, true}, {"ldr w1, [x0]", 0xb9400001, false}, {"ldr w2, [x1], #8", 0xb8408422, false}, {"ldp x2, x1, [x0]", 0xa9400402, false},
		{"str w1, [x0]", 0xb9000001, true}, {"str w2, [x1, #8]!", 0xb8008c22, false}, {"ldadd w0, w1, [x2]", 0xb8200041, false}, {"mov w2, w1", 0x2a0103e2, true}, {"mov w1, w2", 0x2a0203e1, false},
	} {
		// cmp w1, #4; the instruction; b.ne 1f; ret; 1: ret
		f := Function{Arch: "arm64", Parts: []Part{{0x1000, assembled(0x7100103f, tt.w, 0x54000041, retARM64, retARM64)}}}
		g, err := NewGraph(&f)
		if err != nil {
			t.Fatal(err)
		}
		sites := g.Sites(nil)
		if len(sites) != 1 || sites[0].Compare != 0x1000 || len(sites[0].Operands) != map[bool]int{true: 1}[tt.kept] {
			t.Errorf("%s: %+v", tt.text, sites)
		}
	}
}
