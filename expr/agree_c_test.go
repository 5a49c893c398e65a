// SPDX-License-Identifier: Apache-2.0

package expr_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
)

const (
	cExpressions = 4000
	cInputs      = 12
	cMemory      = 4096
)

// A C compiler is the oracle for arithmetic, comparisons, conversions and
// bitfields: the same text must have the same value there. Only what C leaves
// undefined, and we define, is left out by the generator.
func TestAgreesWithC(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc: ", err)
	}
	g := exprfuzz.NewGen(3, "c")
	g.C = true
	g.AddTypes(12)
	g.Params = g.CParameters(6)
	var texts []string
	var terms []expr.Term
	for len(texts) < cExpressions {
		text := g.Int(2 + g.IntN(4))
		if term := checked(t, g, text); term != nil {
			texts, terms = append(texts, text), append(terms, term)
		}
	}
	var inputs []*exprfuzz.Machine
	for range cInputs {
		inputs = append(inputs, cInput(g))
	}
	got := runC(t, gcc, cProgram(g, texts, inputs))
	if len(got) != len(texts)*len(inputs) {
		t.Fatalf("the C program printed %d values, want %d", len(got), len(texts)*len(inputs))
	}
	for i, m := range inputs {
		for j, term := range terms {
			v, err := expr.Eval(term, m)
			if c := got[i*len(texts)+j]; err != nil || v != c {
				t.Errorf("%s\n  is %#x, %v, in C %#x\n  %s", texts[j], v, err, c, describe(g, m))
			}
		}
		if t.Failed() {
			return
		}
	}
}

// checked returns the term of a text, or nil if a constant index is out of
// bounds, which C would not mind.
func checked(t *testing.T, g *exprfuzz.Gen, text string) expr.Term {
	t.Helper()
	spec, err := expr.Parse("f(+" + text + ")")
	if err != nil {
		t.Fatal(err)
	}
	items, err := expr.Check(spec, g.Scope(nil))
	var faults *expr.ErrorList
	if errors.As(err, &faults) && faults.Errors[0].Code == expr.CodeBounds {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return items[0].Captures[0].Value
}

// cInput is memory at address 0x10000, with arguments into its first half.
func cInput(g *exprfuzz.Gen) *exprfuzz.Machine {
	m := &exprfuzz.Machine{Before: make([]byte, cMemory), Kernel: 0xff10_0000_0000_0000}
	for i := 0; i < cMemory; i += 8 {
		binary.LittleEndian.PutUint64(m.Before[i:], g.Word())
	}
	g.Arguments(m)
	for i, p := range g.Params {
		switch u := p.Type.(type) {
		case *btf.Pointer:
			m.Words[i] = m.Kernel + 8*g.Uint64N(cMemory/16)
		case *btf.Int:
			if u.Encoding == btf.Bool {
				m.Words[i] &= 1
			}
		}
	}
	return m
}

func cProgram(g *exprfuzz.Gen, texts []string, inputs []*exprfuzz.Machine) string {
	var b strings.Builder
	b.WriteString("#include <stdio.h>\n")
	b.WriteString(g.Declarations())
	for _, p := range g.Params {
		b.WriteString("static " + exprfuzz.CDeclaration(p.Type, p.Name) + ";\n")
	}
	b.WriteString("static void out(unsigned long long v) { fwrite(&v, 8, 1, stdout); }\n")
	const perFunc = 100 // gcc takes long over long functions
	for i, text := range texts {
		if i%perFunc == 0 {
			fmt.Fprintf(&b, "static void f%d(void) {\n", i/perFunc)
		}
		fmt.Fprintf(&b, "out(%s);\n", text)
		if i%perFunc == perFunc-1 || i == len(texts)-1 {
			b.WriteString("}\n")
		}
	}
	for i, m := range inputs {
		fmt.Fprintf(&b, "static unsigned long long memory%d[] = {", i)
		for j := 0; j < cMemory; j += 8 {
			fmt.Fprintf(&b, "%#xull,", binary.LittleEndian.Uint64(m.Before[j:]))
		}
		b.WriteString("};\n")
	}
	b.WriteString("int main(void) {\n")
	for i, m := range inputs {
		for j, p := range g.Params {
			if _, pointer := p.Type.(*btf.Pointer); pointer {
				fmt.Fprintf(&b, "%s = (void *)((char *)memory%d + %d);\n", p.Name, i, m.Words[j]-m.Kernel)
			} else {
				fmt.Fprintf(&b, "%s = (__typeof__(%s))%#xull;\n", p.Name, p.Name, m.Words[j])
			}
		}
		for j := range (len(texts) + perFunc - 1) / perFunc {
			fmt.Fprintf(&b, "f%d();\n", j)
		}
	}
	b.WriteString("return 0;\n}\n")
	return b.String()
}

// runC compiles and runs a program and returns the numbers it prints. The
// flags are the kernel's: integers wrap, plain char is unsigned.
func runC(t *testing.T, gcc, program string) []uint64 {
	t.Helper()
	dir := t.TempDir()
	source, binaryFile := filepath.Join(dir, "agree.c"), filepath.Join(dir, "agree")
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-std=gnu11", "-O0", "-w", "-fwrapv", "-fno-strict-aliasing", "-funsigned-char", "-o", binaryFile, source}
	if out, err := exec.Command(gcc, flags...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binaryFile).Output()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]uint64, len(out)/8)
	for i := range values {
		values[i] = binary.LittleEndian.Uint64(out[8*i:])
	}
	return values
}

func describe(g *exprfuzz.Gen, m *exprfuzz.Machine) string {
	var b strings.Builder
	for i, p := range g.Params {
		fmt.Fprintf(&b, "%s = %#x; ", exprfuzz.CDeclaration(p.Type, p.Name), m.Words[i])
	}
	return b.String()
}
