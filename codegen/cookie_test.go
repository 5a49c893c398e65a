// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// ofKernel is a target whose kernel has the functions of sessions.
func ofKernel(shared bool) Options {
	return Options{Arch: "amd64", Shared: shared, Kfuncs: someKfuncs}
}

func someKfuncs() Kfuncs { return Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }

// TestCookie: of `long f(struct file *file, long n)`, what fits into 8 bytes beside
// a bit that says that the call is wanted, and one for each value that could not
// be read.
func TestCookie(t *testing.T) {
	for _, c := range []struct {
		spec   string
		shared bool
		fits   bool
		timed  bool
		places string // of the fields: bits@lowest
	}{
		{spec: "f(file->flags, return < 0)", fits: true, places: "32@32"},
		{spec: "f(file->pos, return < 0)"}, // 64 bits leave no room for the others
		{spec: "f(*file, return < 0)"},
		{spec: "f($duration > 1)", fits: true, timed: true},
		{spec: "f(file->flags, $duration > 1)"},
		{spec: "f(file->flags == 1, $duration > 1)"},
		{spec: "f(file->flags, file->flags, return < 0)"}, // 2 times 32 and 3 bits
		{spec: "f(file->flags == 1, return)", fits: true},
		{spec: "f(file->flags, return < 0)", shared: true},
	} {
		p := planned(t, c.spec, layout.MethodFsession)
		got := cookieOf(p, ofKernel(c.shared))
		if (got != nil) != c.fits {
			t.Errorf("%s: fits: %t, want %t", c.spec, got != nil, c.fits)
		}
		if got == nil {
			continue
		}
		var places []string
		used := uint64(1)
		for _, f := range got.fields {
			places = append(places, fmt.Sprintf("%d@%d", f.bits, f.shift))
			bits := (uint64(1)<<f.bits-1)<<f.shift | 1<<f.fault
			if used&bits != 0 {
				t.Errorf("%s: %v overlap", c.spec, got.fields)
			}
			used |= bits
		}
		if s := strings.Join(places, " "); s != c.places || got.timed != c.timed {
			t.Errorf("%s: fields %q, timed %t", c.spec, s, got.timed)
		}
	}
}

// kfuncs lists the kernel's functions that instructions call.
func kfuncs(insns asm.Instructions) (ids []int64) {
	for _, ins := range insns {
		if ins.IsKfuncCall() {
			ids = append(ids, ins.Constant)
		}
	}
	return ids
}

// TestJoined: a program for both ends is linked as one function, in which all
// labels are there once; what both halves call is there for each. It asks once which
// end it is, before anything else.
func TestJoined(t *testing.T) {
	for _, spec := range []string{"f", "f(file->flags, return < 0)", "f(diff(*file), $duration > 10ms, return)", "f(n == 1, $duration > 1)",
		`f($comm == "a", str(file) != "eth0", return < file->pos)`} {
		for _, m := range []layout.Method{layout.MethodFsession, layout.MethodTracingMulti} {
			for _, shared := range []bool{false, true} {
				target := ofKernel(shared)
				target.TypeID = func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
				p := planned(t, spec, m)
				programs := compiled(t, spec, m, target)
				if programs.Joined != p.AtBothEnds() && m != layout.MethodFsession {
					t.Fatalf("%s by %s: joined %t", spec, m, programs.Joined)
				}
				if !programs.Joined {
					continue // see TestTold
				}
				insns, err := bpf.LinkJoined(*programs.Either, programs.Entry, programs.Return)
				if err != nil {
					t.Fatalf("%s by %s: %v", spec, m, err)
				}
				symbols := map[string]int{}
				for i := range insns {
					if s := insns[i].Symbol(); s != "" {
						symbols[s]++
					}
				}
				for i := range insns {
					if ref := insns[i].Reference(); ref != "" && !insns[i].IsLoadFromMap() && symbols[ref] != 1 {
						t.Errorf("%s by %s: %d places for %s", spec, m, symbols[ref], ref)
					}
				}
				if ids := kfuncs(insns); len(ids) == 0 || ids[0] != 101 || slices.Contains(ids[1:], 101) || slices.Contains(ids, -1) {
					t.Errorf("%s by %s: calls kfuncs %v", spec, m, ids)
				}
			}
		}
	}
}

// TestCast: programs cast pointers by the id of the kernel's function. Those on trampolines of modules are not loaded by the ebpf
// package, which could look it up.
func TestCast(t *testing.T) {
	target := ofKernel(false)
	target.TypeID = func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
	for _, m := range []layout.Method{layout.MethodKprobe, layout.MethodFentry, layout.MethodTracingMulti} {
		p := planned(t, "f(file->pos == 1)", m)
		p.InProgram = m == layout.MethodFentry // else the verifier knows what file points to
		programs, err := Compile(p, target)
		if err != nil {
			t.Fatal(err)
		}
		insns, err := bpf.Link(programs.Entry...)
		if ids := kfuncs(insns); err != nil || len(ids) == 0 || slices.ContainsFunc(ids, func(id int64) bool { return id != 103 }) {
			t.Errorf("%s: calls kfuncs %v, %v", m, ids, err)
		}
	}
}

// TestNoSessions: without the kernel's functions there are no such programs.
func TestNoSessions(t *testing.T) {
	for _, m := range []layout.Method{layout.MethodKprobeSession, layout.MethodFsession, layout.MethodTracingMulti} {
		if _, err := Compile(planned(t, "f(file->flags, return < 0)", m), Options{Arch: "amd64"}); err == nil || !strings.Contains(err.Error(), "6.10") {
			t.Errorf("%s: error %v", m, err)
		}
	}
}

// TestUnopened: a return of whose call entry has kept nothing, since a predicate dropped it, is
// left alone: what tells that is the cookie, not whatever was loaded last.
func TestUnopened(t *testing.T) {
	for _, spec := range []string{"f(file->flags == 1, return)", "f($duration > 1)", "f(n == 1, $duration > 1)", "f(file->flags, return == file->flags)"} {
		insns := compiled(t, spec, layout.MethodFsession, ofKernel(false)).Return[0].Insns
		cookie, ok := false, false // whether R0 has it, and whether it was tested
		for _, ins := range insns {
			switch {
			case ins.IsFunctionCall():
				if !ok {
					t.Errorf("%s: sends what entry has not kept:\n%v", spec, insns)
				}
			case cookie && ins.OpCode == asm.JEq.Op(asm.ImmSource) && ins.Dst == asm.R0 && ins.Constant == 0:
				ok = true
			case ins.OpCode == asm.LoadMemOp(asm.DWord) && ins.Dst == asm.R0 && (ins.Src == asm.R0 || ins.Src == asm.RFP && ins.Offset == stackCookie):
				cookie = true
			case !ins.OpCode.Class().IsJump() && ins.Dst == asm.R0 && ins.OpCode.Class() != asm.StXClass, ins.IsBuiltinCall(), ins.IsKfuncCall():
				cookie = false
			}
			if ok {
				break
			}
		}
	}
}
