// SPDX-License-Identifier: Apache-2.0

package code

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// arithmeticOps are the instructions that TestArithmetic has the processor execute, with the
// flags that they define besides the result.
var arithmeticOps = []struct {
	op    x86asm.Op
	one   bool // they have one operand
	flags uint64
}{
	{x86asm.ADD, false, allFlags}, {x86asm.SUB, false, allFlags}, {x86asm.CMP, false, allFlags}, {x86asm.AND, false, allFlags}, {x86asm.TEST, false, allFlags},
	{x86asm.OR, false, allFlags}, {x86asm.XOR, false, allFlags}, {x86asm.INC, true, allFlags}, {x86asm.DEC, true, allFlags}, {x86asm.NEG, true, allFlags},
	{x86asm.NOT, true, 0}, {x86asm.SHL, false, 0}, {x86asm.SHR, false, 0}, {x86asm.SAR, false, 0}, {x86asm.BT, false, carryFlag},
}

const allFlags = carryFlag | parityFlag | zeroFlag | signFlag | overflowFlag

var arithmeticNumbers = []uint64{0, 1, 2, 5, 31, 33, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffea, 1<<63 - 1, 1 << 63, 1<<64 - 22, 1<<64 - 1}

// TestArithmetic compares with what the processor does.
func TestArithmetic(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("no compiler, or another processor")
	}
	var c strings.Builder
	c.WriteString("#include <stdio.h>\nint main(void) {\nunsigned long numbers[] = {")
	for _, n := range arithmeticNumbers {
		fmt.Fprintf(&c, "%#xul, ", n)
	}
	fmt.Fprintf(&c, "};\nfor (int i = 0; i < %d; i++) for (int j = 0; j < %[1]d; j++) {\nunsigned long a, b = numbers[j], f;\n", len(arithmeticNumbers))
	suffix := map[int]string{1: "b", 2: "w", 4: "k", 8: "q"}
	var order []string
	for n, o := range arithmeticOps {
		for _, size := range []int{1, 2, 4, 8} {
			operands := fmt.Sprintf("%%%s2, %%%[1]s0", suffix[size])
			switch {
			case o.one:
				operands = fmt.Sprintf("%%%s0", suffix[size])
			case o.op == x86asm.SHL || o.op == x86asm.SHR || o.op == x86asm.SAR:
				operands = fmt.Sprintf("%%%%cl, %%%s0", suffix[size])
			case o.op == x86asm.BT && size == 1:
				continue
			}
			order = append(order, fmt.Sprint(n, size))
			fmt.Fprintf(&c, "a = numbers[i]; asm(\"pushq $0; popfq; %s %s; pushfq; popq %%1\" : \"+&r\"(a), \"=&r\"(f) : \"c\"(b) : \"cc\"); printf(\"%%lx %%lx\\n\", a, f);\n",
				strings.ToLower(o.op.String()), operands)
		}
	}
	c.WriteString("}\nreturn 0; }\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gcc, "-mno-red-zone", "-o", filepath.Join(dir, "a"), filepath.Join(dir, "a.c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "a")).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	for _, a := range arithmeticNumbers {
		for _, b := range arithmeticNumbers {
			for _, o := range order {
				var n, size int
				var result, flags uint64
				fmt.Sscan(o, &n, &size)
				fmt.Sscanf(lines[0]+" "+lines[1], "%x %x", &result, &flags)
				lines = lines[2:]
				op := arithmeticOps[n]
				right := b
				if op.one {
					right = 1
				}
				r, f, _ := arithmetic(op.op, low(a, size), low(right, size), size, known{kind: number})
				writes := op.op != x86asm.CMP && op.op != x86asm.TEST && op.op != x86asm.BT
				if writes && r != low(result, size) || (f^flags)&op.flags != 0 {
					t.Fatalf("%v of %d bytes, %#x, %#x: %#x, flags %#x; the processor has %#x, %#x", op.op, size, a, b, r, f&op.flags, low(result, size), flags&op.flags)
				}
			}
		}
	}
	if len(lines) != 0 {
		t.Errorf("%d numbers are left", len(lines))
	}
}
