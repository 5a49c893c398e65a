// SPDX-License-Identifier: Apache-2.0

package code

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// instructionsARM64 are executed by QEMU with numbers in x0, x1 and x2 and all flags, and then make x0
// and the flags. The stack has 32 bytes to use.
var instructionsARM64 = []string{
	"add x0, x0, x1", "add w0, w0, w1", "adds x0, x0, x1", "adds w0, w0, w1", "sub x0, x1, x0", "subs w0, w0, w1", "subs x0, x0, x1", "cmp x0, x1", "cmp w0, w1",
	"cmn x0, x1", "cmn w0, w1", "cmn w0, #22", "cmp x0, #1, lsl #12", "add x0, x1, #4095, lsl #12", "sub w0, w1, #1", "negs x0, x1", "neg w0, w0, lsl #3",
	"add x0, x1, x2, lsl #7", "sub x0, x1, x2, asr #60", "sub w0, w1, w2, lsr #5", "cmp x1, x2, asr #3", "cmp w1, w2, lsl #31",
	"add x0, x1, w2, uxtb", "add x0, x1, w2, uxth #1", "add x0, x1, w2, uxtw #2", "add x0, x1, w2, sxtb #3", "add w0, w1, w2, sxth #4", "sub x0, x1, w2, sxtw", "cmp x1, w2, sxtw #2", "cmp w1, w2, uxtb",
	"and x0, x1, x2", "ands w0, w1, w2", "ands x0, x1, x2, ror #9", "tst x0, x0", "tst w1, w2", "bics x0, x1, x2", "bic w0, w1, w2, lsr #1", "orr x0, x1, x2, lsl #63", "orn w0, w1, w2", "eor x0, x1, x2", "eon x0, x1, x2, ror #33", "mvn w0, w1",
	"and x0, x1, #0xff", "ands w0, w1, #0x7ffffffe", "tst x0, #0x8000000000000001", "orr w0, w1, #0xaaaaaaaa", "eor x0, x1, #0xfff0fff0fff0fff0", "mov x0, #0x5555555555555555", "and w0, w1, #0x80000000", "tst w1, #0xfffff000",
	"mov w0, #-22", "mov x0, #-22", "mov x0, #0x12340000", "movz x0, #0xfffe, lsl #48", "movn w0, #5, lsl #16", "movk x0, #0x1234, lsl #32", "movk w0, #0xabcd, lsl #16", "mov w0, w1", "mov x0, x1", "mov x0, xzr",
	"sxtb w0, w1", "sxth x0, w1", "sxtw x0, w1", "uxtb w0, w1", "uxth w0, w1", "ubfx x0, x1, #5, #20", "sbfx w0, w1, #3, #7", "ubfiz x0, x1, #7, #9", "sbfiz x0, x1, #60, #3", "lsl x0, x1, #63", "lsl w0, w1, #1", "lsr x0, x1, #1", "lsr w0, w1, #31", "asr w0, w1, #4", "asr x0, x1, #63",
	"lsl x0, x1, x2", "lsr w0, w1, w2", "asr x0, x1, x2", "asr w0, w1, w2", "ror x0, x1, x2", "ror w0, w1, w2",
	"csel x0, x1, x2, eq", "csel w0, w1, w2, hi", "csinc x0, x1, x2, lt", "csinc w0, w1, w2, ge", "csinv w0, w1, w2, vs", "csinv x0, x1, x2, le", "csneg x0, x1, x2, mi", "csneg w0, w1, w2, cc", "cset w0, gt", "csetm x0, ls", "cinc x0, x1, ne", "cneg w0, w1, pl",
	"ccmp x1, x2, #5, eq", "ccmp w1, #31, #10, lo", "ccmn x1, x2, #0, ge", "ccmn w1, #3, #15, vc", "ccmp x0, #0, #4, al",
	"stp x0, x1, [sp]; ldr x0, [sp, #8]", "str x1, [sp, #16]; ldr x0, [sp, #16]", "str w1, [sp, #4]; ldr w0, [sp, #4]", "str w1, [sp]; ldrsw x0, [sp]", "strb w1, [sp, #3]; ldrb w0, [sp, #3]", "strb w1, [sp]; ldrsb w0, [sp]", "strb w1, [sp]; ldrsb x0, [sp]",
	"strh w1, [sp, #6]; ldrsh x0, [sp, #6]", "strh w1, [sp, #6]; ldrsh w0, [sp, #6]", "strh w1, [sp]; ldrh w0, [sp]", "stur x1, [sp, #9]; ldur x0, [sp, #9]", "str x1, [sp, #-16]!; ldr x0, [sp], #16", "stp w1, w2, [sp, #-8]!; ldp w2, w0, [sp], #8", "stp w1, w2, [sp]; ldpsw x2, x0, [sp]",
	"stp x1, x2, [sp, #-32]!; add x1, sp, #8; ldr x0, [x1], #8; add sp, sp, #32", "mov x2, sp; str x1, [x2, #8]!; ldr x0, [sp, #8]", "stlr x1, [sp]; ldar x0, [sp]", "str x0, [sp]; str w1, [sp]; str xzr, [sp]; ldr x0, [sp]",
	"msr daifclr, #0; mov w0, w1", "hint #34; mov w0, w1", "dmb ish; mov w0, w1",
}

// TestInstructionsARM64 compares with what QEMU executes, and with what is executed if only some of the
// registers are known: what is known then must be the same.
func TestInstructionsARM64(t *testing.T) {
	var listed []string
	for _, text := range instructionsARM64 {
		if !strings.HasPrefix(text, "msr") { // not for user space
			listed = append(listed, text)
		}
	}
	gcc, err := exec.LookPath("aarch64-linux-gnu-gcc")
	if err != nil {
		t.Skip(err)
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip(err)
	}
	var asm, c strings.Builder
	var names []string
	c.WriteString("#include <stdio.h>\nstruct pair { unsigned long x0, flags; };\nunsigned long numbers[] = {")
	for _, n := range arithmeticNumbers {
		fmt.Fprintf(&c, "%#xul, ", n)
	}
	c.WriteString("};\n")
	for i, text := range listed {
		name := fmt.Sprintf("test%d", i)
		names = append(names, name)
		fmt.Fprintf(&asm, ".globl %s\n.type %[1]s, %%function\n%[1]s:\n%s\nret\n.size %[1]s, .-%[1]s\n.globl run%[1]s\nrun%[1]s: str x30, [sp, #-16]!\nsub sp, sp, #32\nmsr nzcv, x3\nbl %[1]s\nmrs x1, nzcv\nadd sp, sp, #32\nldr x30, [sp], #16\nret\n",
			name, strings.ReplaceAll(text, "; ", "\n"))
		fmt.Fprintf(&c, "struct pair run%s(unsigned long, unsigned long, unsigned long, unsigned long);\n", name)
	}
	fmt.Fprintf(&c, "int main(void) { int n = %d;\n", len(arithmeticNumbers))
	for _, name := range names {
		fmt.Fprintf(&c, "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < 5; k++) { struct pair p = run%s(numbers[i], numbers[j], numbers[(i + j + k) %% n], (unsigned long)((i + 3 * j + 7 * k) %% 16) << 28); printf(\"%%lx %%lx\\n\", p.x0, p.flags); }\n", name)
	}
	c.WriteString("return 0; }\n")
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	for name, text := range map[string]string{"a.c": c.String(), "b.s": asm.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(gcc, "-static", "-o", file, file+".c", filepath.Join(dir, "b.s")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(qemu, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	functions := functionsOf(t, "arm64", file, names)
	n := len(arithmeticNumbers)
	for f, text := range listed {
		for i := range n {
			for j := range n {
				for k := range 5 {
					var result, flags uint64
					fmt.Sscanf(lines[0]+" "+lines[1], "%x %x", &result, &flags)
					lines = lines[2:]
					in := [4]uint64{arithmeticNumbers[i], arithmeticNumbers[j], arithmeticNumbers[(i+j+k)%n], uint64((i+3*j+7*k)%16) << 28}
					for unknown := range 1 << len(in) {
						x0, nzcv := functions[f].imagineARM64(in, unknown)
						if x0.kind == number && low(x0.v^result, x0.size) != 0 || nzcv.kind == number && nzcv.v != flags {
							t.Fatalf("%s of %#x without %#b: %+v, flags %+v; QEMU has %#x, %#x", text, in, unknown, x0, nzcv, result, flags)
						}
						if unknown == 0 && (x0.kind != number || x0.size < 8 || nzcv.kind != number) {
							t.Fatalf("%s of %#x: %+v, flags %+v are not known; QEMU has %#x, %#x", text, in, x0, nzcv, result, flags)
						}
					}
				}
			}
		}
	}
	if len(lines) != 0 {
		t.Errorf("%d numbers are left", len(lines))
	}
}

// imagineARM64 executes a function with x0, x1, x2 and the flags, but for some that are not known.
func (c *compiled) imagineARM64(in [4]uint64, unknown int) (x0, flags known) {
	m := imagined{machine: machineOf("arm64"), words: make([]known, len(ptregs.Names("arm64"))), stack: map[int64]slot{}}
	for i := range 3 {
		if unknown>>i&1 == 0 {
			m.words[i] = known{number, in[i], 8}
		}
	}
	if unknown>>3&1 == 0 {
		m.flags = known{number, in[3], 8}
	}
	m.words[stackARM64] = known{kind: onStack}
	for i := range c.graph.Instructions {
		m.executeARM64(&c.Function, &c.graph.Instructions[i])
	}
	return m.words[0], m.flags
}

// TestForgottenARM64: what is not known changes all that it can change.
func TestForgottenARM64(t *testing.T) {
	for _, tt := range []struct {
		text    string
		w       uint32
		forgets []int // of x0 to x3; sp is kept
		stack   bool  // and what is on the stack, whose address is known elsewhere
	}{
		{"mul x0, x1, x2", 0x9b027c20, []int{0}, false},
		{"udiv w1, w2, w0", 0x1ac00841, []int{1}, false},
		{"clz x2, x0", 0xdac01002, []int{2}, false},
		{"mrs x1, sp_el0", 0xd5384101, []int{1}, false},
		{"adrp x0, .", 0x90000000, []int{0}, false},
		{"ldr x1, .+8", 0x58000041, []int{1}, false},
		{"ldr x1, [x2, x0, lsl #3]", 0xf8607841, []int{1}, false},
		{"ldxr w1, [x2]", 0x885f7c41, []int{1}, false},
		{"stxr w1, w0, [x2]", 0x88017c40, []int{1}, true},
		{"ldadd x0, x1, [x2]", 0xf8200041, []int{1}, true},
		{"ldaddal x0, x1, [x2]", 0xf8e00041, []int{1}, true},
		{"swpa x0, x1, [x2]", 0xf8a08041, []int{1}, true},
		{"cas x0, x1, [x2]", 0xc8a07c41, []int{0}, true},
		{"ldapr x1, [x2]", 0xf8bfc041, []int{1}, false},
		{"str x0, [x2]", 0xf9000040, nil, true},
		{"str q0, [x2]", 0x3d800040, nil, true},
		{"stp q0, q1, [x2]", 0xad000440, nil, true},
		{"ldp q0, q1, [x2]", 0xad400440, nil, false},
		{"prfm pldl1keep, [x2]", 0xf9800040, nil, false},
		{"fmov x0, d0", 0x9e660000, []int{0, 1, 2, 3}, true},
		{"caspal x0, x1, x2, x3, [x2]", 0x4860fc42, []int{0, 1, 2, 3}, true},
		{"hvc #0", 0xd4000002, []int{0, 1, 2, 3}, true},
		{"ldr x0, [x2], #8", 0xf8408440, []int{0, 2}, false},
	} {
		text := []byte{byte(tt.w), byte(tt.w >> 8), byte(tt.w >> 16), byte(tt.w >> 24)}
		f := Function{Arch: "arm64", Parts: []Part{{0x1000, text}}}
		in, err := decode("arm64", text, 0x1000)
		if err != nil {
			t.Fatal(err)
		}
		shared := int64(-8)
		m := imagined{machine: machineOf("arm64"), words: make([]known, len(ptregs.Names("arm64"))), stack: map[int64]slot{-8: {known{number, 7, 8}, 8}}, shared: &shared}
		w := walker{f: &f, machine: m.machine, words: make([]*Value, len(m.words)), stack: map[int64]held{-8: {&Value{Kind: Constant, N: 7}, 8}}, taken: &shared}
		for i := range 4 {
			m.words[i] = known{kind: made, v: 0x2000}
			w.words[i] = &Value{Kind: Argument, Word: i}
		}
		m.words[stackARM64], w.words[stackARM64] = known{kind: onStack}, &Value{Kind: Frame}
		m.executeARM64(&f, &in)
		w.executeARM64(&in)
		for i := range 4 {
			forgotten := slices.Contains(tt.forgets, i)
			if m.words[i].kind != made != forgotten {
				t.Errorf("%s: x%d: %+v", tt.text, i, m.words[i])
			}
			if v := w.words[i]; (v == nil || v.Kind != Argument) != forgotten && (v == nil || v.Kind != Sum) {
				t.Errorf("%s: x%d: %+v", tt.text, i, v)
			}
		}
		if _, has := m.stack[-8]; has && m.stack[-8].kind == number == tt.stack {
			t.Errorf("%s: stack %+v", tt.text, m.stack)
		}
		if _, has := w.stack[-8]; has == tt.stack {
			t.Errorf("%s: stack of the walk %+v", tt.text, w.stack)
		}
	}
}
