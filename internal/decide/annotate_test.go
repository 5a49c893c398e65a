// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// testSource has one inlined function in check, and a variable in it.
type testSource struct{ variable debuginfo.Variable }

func (testSource) Frames(dst []symbols.Frame, addr uint64, _ bool) []symbols.Frame {
	return append(dst, symbols.Frame{Addr: addr, Name: "valid", File: "kernel/a.c", Line: 2, Column: 6, Inlined: true},
		symbols.Frame{Addr: addr, Name: "check", File: "kernel/b.c", Line: 9, Column: 3})
}
func (s testSource) Variables(uint64) []debuginfo.Variable { return []debuginfo.Variable{s.variable} }

// TestAnnotate: what debug info says of a jump, and what the source's text adds to it.
func TestAnnotate(t *testing.T) {
	const registerDI = 5 // as DWARF counts
	in := func(name, typ string, size uint32, memory bool, ops ...debuginfo.Op) debuginfo.Variable {
		place := debuginfo.Place{Memory: memory, Ops: append([]debuginfo.Op{{Code: debuginfo.OpRegister, N: registerDI}}, ops...)}
		return debuginfo.Variable{Param: debuginfo.Param{Name: name, Type: debuginfo.Type{Name: typ, Size: size}, Place: place}}
	}
	lines := []plan.Line{{Inlined: "valid", Place: "kernel/a.c:2:6"}, {Place: "kernel/b.c:9:3"}}
	class := code.Class{Size: 4}
	for _, tt := range []struct {
		name     string
		variable debuginfo.Variable
		source   string
		want     plan.Note
	}{
		{"a pointer", in("p", "struct attr *", 8, false), "",
			plan.Note{Lines: lines, Names: []plan.Name{{Text: "p->key_size", Class: class, Others: []string{"p->count"}}}}},
		{"whose member the source names", in("p", "const struct attr *", 8, false), "int valid(p)\n\tif (p->count != 4)\n",
			plan.Note{Lines: lines, Text: "if (p->count != 4)", Names: []plan.Name{{Text: "p->count", Class: code.Class{Size: 4, Signed: true}}}}},
		{"a struct in memory", in("a", "struct attr", 12, true), "",
			plan.Note{Lines: lines, Names: []plan.Name{{Text: "a.key_size", Class: class, Others: []string{"a.count"}}}}},
		{"a number in memory", in("n", "unsigned int", 4, true, debuginfo.Op{Code: debuginfo.OpConst, N: 4}, debuginfo.Op{Code: debuginfo.OpAdd}), "",
			plan.Note{Lines: lines, Names: []plan.Name{{Text: "n", Class: class}}}},
		{"what a macro calls so", in("__p", "struct attr *", 8, false), "", plan.Note{Lines: lines}},
		{"a variable elsewhere", in("n", "unsigned int", 4, true), "", plan.Note{Lines: lines}},
	} {
		// cmpl $4, 4(%rdi); jne 1f; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
		e, _ := call(t, []byte{0x83, 0x7f, 0x04, 0x04, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}, step(0, 0, 3))
		a := Annotator{Source: testSource{tt.variable}, Types: func(spelling, _ string) ([]btf.Type, error) {
			if spelling == "struct attr" {
				return []btf.Type{attr}, nil
			}
			return nil, nil
		}}
		if tt.source != "" {
			a.Tree = fstest.MapFS{"kernel/a.c": {Data: []byte(tt.source)}}
		}
		tt.want.Addr = entry + 4
		got := a.Annotate(&plan.Plan{Probes: []*plan.Probe{e.Probe}}).Probes[0].Way.Notes
		if d := cmp.Diff([]plan.Note{tt.want}, got); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}
