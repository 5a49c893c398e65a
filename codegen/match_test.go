// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// TestMatchLongArray: of a char array of more than 256 bytes a glob sees the first 256. What the string is behind
// them is not guessed: if it decides, that is a fault, in Eval as in generated code.
func TestMatchLongArray(t *testing.T) {
	const holds, differs, fault = 1, 0, -1
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	array := &btf.Array{Type: char, Index: u32, Nelems: 512}
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		pattern, text string
		want          int
	}{
		{"*end", x(300) + "end", fault}, {"x*x", x(300) + "end", fault}, {"*end", x(250) + "end", holds}, {"x*x", x(250) + "end", differs},
		{"*end", x(252) + "end", holds}, {"*end", x(253) + "end", fault}, {"*end", x(253) + "end!", fault}, {"*", x(512), holds},
		{"xx*", x(300), holds}, {"y*", x(300), differs}, {"y*x", x(300), differs}, {x(255), x(300), differs}, {"x?*", x(256), holds},
		{"*end*", x(100) + "end" + x(300), holds}, {"*end*", x(300) + "end", fault}, {"*end*", x(253) + "end" + x(9), holds}, {"*end*", x(254) + "end" + x(9), fault},
		{"*end*", x(254), differs}, {"*end*", x(255), differs}, {"*end*", x(256), fault}, {"y*end*", x(300) + "end", differs}, {"x*end*x", x(100) + "end" + x(300), fault},
		{"x*end*", "xend", holds}, {"*end*", "", differs}, {"", "", holds}, {"?", "x", holds}, {"*?", x(300), fault},
	} {
		m := &expr.Match{Op: expr.OpMatch, X: &expr.Text{T: array, Addr: &expr.Const{V: runData}, Max: expr.MaxText}, Pattern: c.pattern}
		a := newAssembler(&layout.Probe{}, Options{Arch: "amd64"}, expr.AtEntry, "test")
		a.matchFunction(m)
		r := &runner{memory: make([]byte, runFrame)}
		copy(r.memory[runData:runData+512], c.text)
		r.regs[asm.R1], r.regs[asm.RFP] = runData, runFrame
		r.run(t, a.functions[0].Insns)
		if got := int(int32(r.regs[asm.R0])); got != c.want {
			t.Errorf("%.20q of %d bytes ~ %.20q: %d by generated code, want %d", c.text, len(c.text), c.pattern, got, c.want)
		}
		v, err := expr.Eval(m, memoryMachine{mem: r.memory})
		if got := int(v); errors.Is(err, expr.ErrUnreadable) != (c.want == fault) || err == nil && got != c.want {
			t.Errorf("%.20q of %d bytes ~ %.20q: %d, %v by Eval, want %d", c.text, len(c.text), c.pattern, got, err, c.want)
		}
	}
}

// A memoryMachine has nothing but memory, which begins at address 0.
type memoryMachine struct {
	expr.Machine
	mem []byte
}

func (m memoryMachine) Read(_ expr.Space, _ expr.Phase, addr uint64, p []byte) bool {
	copy(p, m.mem[addr:])
	return true
}
