// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// byValue is what a function takes or returns by value, as the psABIs of amd64 and arm64 lay it out:
//
//	struct pair { int a; struct { int x, y; } in; int b; };
//	struct odd { char tag[3]; char name[5]; float f; short n; };
//	struct shorts { short a; struct { short v[5]; } in; int b; };
//	struct large { int a; struct { int v[5]; } in; int b, c; };
//	struct padded { long double x; int n; };
func byValue() map[string]btf.Type {
	i, short := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "short int", Size: 2, Encoding: btf.Signed}
	char, float := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, &btf.Float{Name: "float", Size: 4}
	array := func(t btf.Type, n uint32) btf.Type { return &btf.Array{Type: t, Index: u32, Nelems: n} }
	of := func(size uint32, members ...btf.Member) btf.Type { return &btf.Struct{Size: size, Members: members} }
	at := func(name string, bytes btf.Bits, t btf.Type) btf.Member {
		return btf.Member{Name: name, Type: t, Offset: 8 * bytes}
	}
	return map[string]btf.Type{
		"pair":   of(16, at("a", 0, i), at("in", 4, of(8, at("x", 0, i), at("y", 4, i))), at("b", 12, i)),
		"odd":    of(16, at("tag", 0, array(char, 3)), at("name", 3, array(char, 5)), at("f", 8, float), at("n", 12, short)),
		"shorts": of(16, at("a", 0, short), at("in", 2, of(10, at("v", 0, array(short, 5)))), at("b", 12, i)),
		"large":  of(32, at("a", 0, i), at("in", 4, of(20, at("v", 0, array(i, 5)))), at("b", 24, i), at("c", 28, i)),
		"padded": of(32, at("x", 0, &btf.Float{Name: "long double", Size: 16}), at("n", 16, i)),
	}
}

// Where a runner's memory has what, and the bytes of values that are passed by value: 0x80 and so on.
const (
	runContext, runStack, runData, runFrame = 0x1000, 0x2000, 0x3000, 0x5000
	firstByte                               = 0x80
)

// called returns a runner at the call of a function whose first parameter and whose result have the bytes
// 0x80, 0x81 and so on.
func called(p *layout.Probe, arch arch) *runner {
	r := &runner{memory: make([]byte, runFrame)}
	image := make([]byte, 64)
	for i := range image {
		image[i] = byte(firstByte + i)
	}
	context := r.memory[runContext:]
	word := func(off int16, i int) { copy(context[off:][:8], image[8*i:]) }
	loc := p.Params[0].Loc
	switch {
	case inWords(p.Method):
		copy(context[8*loc.Slot:], image[:8*loc.Slots])
	case loc.Reg >= 0:
		for i := range loc.Slots {
			word(arch.args[loc.Reg+i], i)
		}
	default:
		copy(context[arch.sp:], []byte{runStack & 0xff, runStack >> 8})
		copy(r.memory[runStack+loc.Stack:], image)
	}
	if !p.Method.Trampoline() && p.Return != nil {
		word(arch.results[0], 0)
		word(arch.results[1], 1)
	}
	r.regs[captureContext], r.regs[captureData], r.regs[asm.RFP] = runContext, runData, runFrame
	return r
}

// TestMemberByValue: an aggregate in what is passed by value is captured from the bytes where it lies.
func TestMemberByValue(t *testing.T) {
	for _, c := range []struct {
		text, value string
		off, size   int
	}{
		{"f(s)", "pair", 0, 16}, {"f(s.in)", "pair", 4, 8}, {"f(return)", "pair", 0, 16}, {"f(return.in)", "pair", 4, 8},
		{"f(s.tag)", "odd", 0, 3}, {"f(s.name)", "odd", 3, 5}, {"f(s.f)", "odd", 8, 4}, {"f(return.name)", "odd", 3, 5},
		{"f(s.in)", "shorts", 2, 10}, {"f(return.in)", "shorts", 2, 10},
		{"f(s)", "large", 0, 32}, {"f(s.in)", "large", 4, 20},
		{"f(count()[s.in])", "pair", 4, 8}, {"f(count()[s.tag])", "odd", 0, 3}, {"f(count()[s.f])", "odd", 8, 4},
		{"f(count()[s.in])", "shorts", 2, 10}, {"f(count()[s.in])", "large", 4, 20},
		{"f(s.x)", "padded", 0, 16}, {"f(count()[s.x])", "padded", 0, 10}, // of a key without the padding
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, m := range []layout.Method{layout.MethodKprobe, layout.MethodFentry} {
				s := byValue()[c.value]
				p := plannedFor(t, c.text, m, s, arch)
				late := p.Return != nil
				if p.Params[0].Loc.Ref || m == layout.MethodFentry && (late || p.Params[0].Loc.Apart) {
					continue // read where the copy is; not by this method
				}
				what := fmt.Sprintf("%s of struct %s, %s on %s", c.text, c.value, m, arch)
				phase, half := expr.AtEntry, p.Entry
				if late {
					phase, half = expr.AtReturn, p.Return
				}
				a := newAssembler(p, Options{Arch: arch}, phase, "test")
				a.ctx = captureContext
				to := runData
				size := (c.size + 7) &^ 7
				if len(half.Updates) > 0 {
					a.dest, a.data, to = asm.RFP, -256, runFrame-256
					a.keyPart(&half.Updates[0], 0)
				} else {
					a.storeAll(half.Stores)
					size = c.size // what follows is not shown
				}
				a.emit(asm.Return())
				r := called(p, arches[arch])
				r.run(t, a.done())
				want := make([]byte, size)
				for i := range c.size {
					want[i] = byte(firstByte + c.off + i)
				}
				if got := r.memory[to:][:size]; !bytes.Equal(got, want) {
					t.Errorf("%s: % x, want % x", what, got, want)
				}
			}
		}
	}
}

// TestKeptKeyByValue: what entry keeps of a key has nothing behind the aggregate, either.
func TestKeptKeyByValue(t *testing.T) {
	for _, c := range []struct {
		text, value string
		size        int
	}{{"f(sum($duration)[s.tag])", "odd", 3}, {"f(sum($duration)[s.x])", "padded", 10}} {
		testKeptKey(t, plannedFor(t, c.text, layout.MethodKprobe, byValue()[c.value], "amd64"), c.size)
	}
}

func testKeptKey(t *testing.T, p *layout.Probe, size int) {
	t.Helper()
	i := slices.IndexFunc(p.Entry.Stores, func(s layout.Slot) bool { return s.Part == layout.PartKept })
	if i < 0 {
		t.Fatal("nothing is kept")
	}
	a := newAssembler(p, Options{Arch: "amd64"}, expr.AtEntry, "test")
	a.ctx = captureContext
	s := p.Entry.Stores[i]
	a.store(&s)
	a.emit(asm.Return())
	r := called(p, arches["amd64"])
	r.run(t, a.done())
	want := make([]byte, (size+7)&^7)
	for i := range size {
		want[i] = byte(firstByte + i)
	}
	if got := r.memory[runData+int(s.Off):][:len(want)]; !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

// plannedFor plans a SPEC for `TYPE f(TYPE s)`.
func plannedFor(t *testing.T, text string, m layout.Method, value btf.Type, arch string) *layout.Probe {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &layout.Probe{Name: "f", Function: "f", Spec: spec, Method: m}
	if layout.Words(value) <= 2 {
		p.Result = value
	}
	p.Params = layout.ParamsOf([]btf.FuncParam{{Name: "s", Type: value}}, p.Result, arch)
	scope := &expr.Scope{Func: "f", Return: p.Result, Types: noTypes{}, Params: []expr.Param{p.Params[0].Param}}
	if p.Items, err = expr.Check(spec, scope); err != nil {
		t.Fatal(err)
	}
	p.Tables = []int{0}
	if err := p.Lay(); err != nil {
		t.Fatal(err)
	}
	return p
}
