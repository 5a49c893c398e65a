// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	long = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	u32  = &btf.Int{Name: "unsigned int", Size: 4}
	file = fileStruct()
)

// fileStruct is struct file { u32 flags, mode; struct file *next; long pos; }.
func fileStruct() *btf.Struct {
	next := &btf.Pointer{}
	s := &btf.Struct{Name: "file", Size: 24, Members: []btf.Member{
		{Name: "flags", Type: u32}, {Name: "mode", Type: u32, Offset: 32}, {Name: "next", Type: next, Offset: 64}, {Name: "pos", Type: long, Offset: 128}}}
	next.Target = s
	return s
}

// noTypes is a kernel without named types.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// compiled generates code of a SPEC for `long f(struct file *file, long n)`.
func compiled(t testing.TB, text string, m layout.Method, target Options) Programs {
	t.Helper()
	programs, err := Compile(planned(t, text, m), target)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

// planned plans a SPEC for the same function, without generating anything.
func planned(t testing.TB, text string, m layout.Method) *layout.Probe {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &layout.Probe{Name: "f", Function: "f", Spec: spec, Result: long, Method: m}
	scope := &expr.Scope{Func: "f", Return: long, Types: noTypes{}}
	for i, param := range []expr.Param{{Name: "file", Type: &btf.Pointer{Target: file}}, {Name: "n", Type: long}} {
		p.Params = append(p.Params, layout.Param{Param: param, Loc: layout.Loc{Slot: i, Slots: 1, Reg: i}})
		scope.Params = append(scope.Params, param)
	}
	if p.Items, err = expr.Check(spec, scope); err != nil {
		t.Fatal(err)
	}
	if err := p.Lay(); err != nil {
		t.Fatal(err)
	}
	return p
}

// calls lists the helpers and functions, and as "kfunc" functions of the kernel, that a function calls, in order.
func calls(insns asm.Instructions) []string {
	var names []string
	for _, ins := range insns {
		switch {
		case ins.IsBuiltinCall():
			names = append(names, asm.BuiltinFunc(ins.Constant).String())
		case ins.IsFunctionCall():
			names = append(names, ins.Reference())
		case ins.IsKfuncCall():
			names = append(names, "kfunc")
		}
	}
	return names
}

// TestPrograms: what a program calls is what it costs.
func TestPrograms(t *testing.T) {
	cast := func(t btf.Type) (btf.TypeID, bool) { return 7, t == file }
	for _, c := range []struct {
		spec         string
		method       layout.Method
		target       Options
		entry, ret   string // calls of the programs
		capture      string // calls of the capture function at entry
		instructions int    // of the entry program; 0: whatever
	}{
		{spec: "f(n == 1)", method: layout.MethodFentry, entry: "ks_send", instructions: 11},
		{spec: "f(n == 0x123456789a)", method: layout.MethodFentry, entry: "ks_send", instructions: 12},
		{spec: "f(n == 1)", method: layout.MethodFentry, target: Options{Filtered: true}, entry: "ks_filter ks_send"},
		{spec: "f(file->pos == 1, n == 2)", method: layout.MethodFentry, target: Options{Filtered: true},
			entry: "ks_filter FnProbeReadKernel ks_send ks_count", capture: "FnProbeReadKernel"},
		{spec: "f(file->pos == 1)", method: layout.MethodKprobe, entry: "FnProbeReadKernel ks_send ks_count", capture: "FnProbeReadKernel"},
		{spec: "f(file->pos == 1)", method: layout.MethodKprobe, target: Options{TypeID: cast}, entry: "FnProbeReadKernel ks_send ks_count", capture: "FnProbeReadKernel"},
		{spec: "f(file->pos == 1)", method: layout.MethodKprobe, target: Options{Kfuncs: someKfuncs, TypeID: cast},
			entry: "kfunc FnProbeReadKernel ks_send ks_count", capture: "kfunc FnProbeReadKernel"},
		// One read for both members, and each alone if that fails.
		{spec: "f(file->flags, file->mode)", method: layout.MethodKprobe, entry: "ks_send",
			capture: "FnProbeReadKernel FnProbeReadKernel FnProbeReadKernel"},
		{spec: "f(file)", method: layout.MethodFentry, entry: "ks_send", capture: "FnProbeReadKernel"},
		{spec: "f(return < 0)", method: layout.MethodKprobe, ret: "ks_send"},
		{spec: "f(file->pos, return < 0)", method: layout.MethodFentry, entry: "ks_open_far FnProbeReadKernel ks_forget", ret: "ks_finish ks_free ks_find_far"},
		{spec: "f(file->pos == 1, return)", method: layout.MethodFentry, entry: "FnProbeReadKernel ks_send ks_open_far ks_count ks_forget",
			capture: "FnProbeReadKernel", ret: "ks_finish ks_free ks_find_far"},
		{spec: "f(file->pos, return < 0)", method: layout.MethodKprobe, entry: "ks_open FnProbeReadKernel", ret: "ks_find ks_finish ks_free"},
		// A long string is read by a function of its own, whose frame is gone when the record is sent.
		{spec: `f(str(file) ~ "*a*", n != 0)`, method: layout.MethodKprobe, entry: "entry_match0 ks_send ks_count", capture: "FnProbeReadKernelStr ks_count"},
		{spec: `f(str(file) == "abc", n != 0)`, method: layout.MethodKprobe, entry: "FnProbeReadKernelStr ks_send ks_count", capture: "FnProbeReadKernelStr ks_count"},
		{spec: "f($pid == 1 || $cpu == 2, user(file)->pos)", method: layout.MethodFentry,
			entry: "FnGetCurrentPidTgid FnGetSmpProcessorId ks_send", capture: "FnGetCurrentPidTgid FnGetSmpProcessorId FnProbeReadUser"},
		{spec: "f($pid == 1)", method: layout.MethodKprobe, target: Options{Namespace: true}, entry: "ks_ids ks_send", capture: "ks_ids"},
	} {
		c.target.Arch = "amd64"
		programs := compiled(t, c.spec, c.method, c.target)
		check := func(what, want string, functions []bpf.Subprogram, i int) {
			got := ""
			if i >= 0 && i < len(functions) {
				got = strings.Join(calls(functions[i].Insns), " ")
			}
			if got != want {
				t.Errorf("%s by %s, %s: calls %q, want %q", c.spec, c.method, what, got, want)
			}
		}
		check("entry", c.entry, programs.Entry, 0)
		check("return", c.ret, programs.Return, 0)
		check("capture", c.capture, programs.Entry, slices.IndexFunc(programs.Entry, func(f bpf.Subprogram) bool { return f.Name == bpf.FuncCapture }))
		if n := len(programs.Entry); c.instructions != 0 && (n == 0 || len(programs.Entry[0].Insns) != c.instructions) {
			t.Errorf("%s: %d instructions, want %d:\n%v", c.spec, len(programs.Entry[0].Insns), c.instructions, programs.Entry[0].Insns)
		}
	}
}

// TestLabels: every jump goes to a label that exists once, every instruction
// says what it is for, and every function can be linked.
func TestLabels(t *testing.T) {
	for _, spec := range []string{
		"f", "f(n == 1 && (file->pos > 2 || file->next->next->pos == 3) && !(n & 4), return < file->pos)",
		`f($comm == "a", $comm ~ "b*c*d", str(file) != "eth0", (n / file->pos) % -3 << n)`,
		"f(diff(*file), $duration > 10ms, return)", "f(buf(file, n), ustr(n), file->flags, file->mode, file->pos)",
	} {
		for _, m := range []layout.Method{layout.MethodFentry, layout.MethodKprobe} {
			programs := compiled(t, spec, m, Options{Arch: "amd64", Filtered: true})
			for _, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
				if functions == nil {
					continue
				}
				for _, f := range functions {
					checkLabels(t, spec, f)
				}
				if _, err := bpf.Link(functions...); err != nil {
					t.Errorf("%s: %v", spec, err)
				}
			}
		}
	}
}

func checkLabels(t *testing.T, spec string, f bpf.Subprogram) {
	t.Helper()
	places := map[string]int{}
	for _, ins := range f.Insns {
		if ins.Symbol() != "" {
			places[ins.Symbol()]++
		}
		if ins.Source() == nil || ins.Source().String() == "" {
			t.Errorf("%s, %s: %v carries no text", spec, f.Name, ins)
		}
	}
	for _, ins := range f.Insns {
		if ref := ins.Reference(); ref != "" && !ins.IsFunctionCall() && !ins.IsLoadFromMap() && places[ref] != 1 {
			t.Errorf("%s, %s: %d places for %s", spec, f.Name, places[ref], ref)
		}
	}
	if last := f.Insns[len(f.Insns)-1]; last.OpCode.JumpOp() != asm.Exit && last.OpCode.JumpOp() != asm.Ja {
		t.Errorf("%s, %s ends with %v", spec, f.Name, last)
	}
}

// TestText: the verifier quotes the user, so the text is the SPEC's.
func TestText(t *testing.T) {
	programs := compiled(t, "f( n   == 1, return<0 )", layout.MethodKprobe, Options{Arch: "amd64"})
	var texts []string
	for _, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
		for _, ins := range functions[0].Insns {
			texts = append(texts, ins.Source().String())
		}
	}
	for _, want := range []string{"n   == 1", "return<0"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no instruction says %q: %q", want, slices.Compact(texts))
		}
	}
}

// TestUserAddress: where the helpers would read user space's memory as the
// kernel's, every address is tested before they get it.
func TestUserAddress(t *testing.T) {
	for _, spec := range []string{"f(file->pos == 1)", "f(file->pos, file->flags)", "f(*file)", `f(str(file) == "a")`, "f(str(file))", "f(buf(file, 9))"} {
		for arch, want := range map[string]bool{"amd64": false, "arm64": true} {
			programs := compiled(t, spec, layout.MethodKprobe, Options{Arch: arch})
			reads, tests := 0, 0
			for _, f := range programs.Entry {
				tested := false
				for _, ins := range f.Insns {
					switch {
					case ins.OpCode.JumpOp() == asm.JLT && ins.Dst == asm.R3 && ins.Src == asm.R5:
						tested = true
						tests++
					case ins.IsBuiltinCall() && (asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadKernel || asm.BuiltinFunc(ins.Constant) == asm.FnProbeReadKernelStr):
						reads++
						if tested != want {
							t.Errorf("%s on %s: an address is tested: %v", spec, arch, tested)
						}
						tested = false
					}
				}
			}
			if reads == 0 || want && tests != reads {
				t.Errorf("%s on %s: %d reads, %d tests", spec, arch, reads, tests)
			}
		}
	}
}

func TestUnknownArch(t *testing.T) {
	p := &layout.Probe{}
	if _, err := Compile(p, Options{Arch: "riscv64"}); err == nil {
		t.Error("code was generated for an architecture whose registers are not known")
	}
}

// TestStackLimit: what needs more stack than there is has to be refused here,
// not by the verifier.
func TestStackLimit(t *testing.T) {
	deep := strings.Repeat("(n + ", 60) + "n" + strings.Repeat(")", 60)
	p := planned(t, "f("+deep+` == 1, $comm ~ "a*b*c", str(file) ~ "`+strings.Repeat("x", 200)+`*")`, layout.MethodFentry)
	if _, err := Compile(p, Options{Arch: "amd64"}); err == nil || !strings.Contains(err.Error(), "512 bytes of stack") {
		t.Errorf("error %v", err)
	}
}
