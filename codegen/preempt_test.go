// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/codegen"
)

// typesOf is the BTF of a kernel that has some types.
func typesOf(t *testing.T, types ...btf.Type) *btf.Spec {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(rawTypes(t, types...)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestPreemptCount: where Linux keeps it. On x86 that is a variable of each CPU, which from 6.2 to 6.14
// was a member of pcpu_hot (arch/x86/include/asm/preempt.h), on arm64 it is in thread_info. From 7.3 on the
// numbers of interrupts are 8 bits further up (include/linux/preempt.h).
func TestPreemptCount(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	anonymous := &btf.Struct{Size: 16, Members: []btf.Member{{Name: "current_task", Type: &btf.Pointer{Target: &btf.Void{}}},
		{Name: "preempt_count", Type: integer, Offset: 64}}}
	hot := &btf.Struct{Name: "pcpu_hot", Size: 64, Members: []btf.Member{{Type: &btf.Union{Size: 64, Members: []btf.Member{{Type: anonymous}}}}}}
	info := &btf.Struct{Name: "thread_info", Size: 24, Members: []btf.Member{{Name: "flags", Type: integer}, {Name: "preempt_count", Type: integer, Offset: 128}}}
	task := &btf.Struct{Name: "task_struct", Size: 64, Members: []btf.Member{{Name: "x", Type: integer}, {Name: "thread_info", Type: info, Offset: 64}}}
	for _, c := range []struct {
		what, arch string
		types      []btf.Type
		want       string // instructions, or the error
	}{
		{"6.1", "amd64", []btf.Type{integer, &btf.Var{Name: "__preempt_count", Type: integer, Linkage: btf.GlobalVar}},
			"r1 = the kernel's variable 2; call bpf_this_cpu_ptr#154; r0 = *(u32 *)(r0 +0); exit"},
		{"6.12", "amd64", []btf.Type{integer, &btf.Var{Name: "pcpu_hot", Type: hot, Linkage: btf.GlobalVar}},
			"r1 = the kernel's variable 2; call bpf_this_cpu_ptr#154; r0 = *(u32 *)(r0 +8); exit"},
		{"arm64", "arm64", []btf.Type{task}, "call bpf_get_current_task_btf#158; r0 = *(u32 *)(r0 +24); exit"},
		{"7.3", "amd64", []btf.Type{integer, &btf.Var{Name: "__preempt_count", Type: integer, Linkage: btf.GlobalVar},
			&btf.Var{Name: "local_interrupt_disable_state", Type: integer, Linkage: btf.GlobalVar}},
			"r1 = the kernel's variable 2; call bpf_this_cpu_ptr#154; r0 = *(u32 *)(r0 +0); r1 = r0; r0 &= 65535; r1 >>= 8; r1 &= 8323072; r0 |= r1; exit"},
		{"7.3 on arm64", "arm64", []btf.Type{task, &btf.Var{Name: "local_interrupt_disable_state", Type: integer, Linkage: btf.GlobalVar}},
			"call bpf_get_current_task_btf#158; r0 = *(u32 *)(r0 +24); r1 = r0; r0 &= 65535; r1 >>= 8; r1 &= 8323072; r0 |= r1; exit"},
		{"none", "amd64", []btf.Type{integer}, "finding the kernel's preemption count: there is neither __preempt_count nor pcpu_hot"},
		{"another pcpu_hot", "amd64", []btf.Type{&btf.Var{Name: "pcpu_hot", Type: info.Members[0].Type, Linkage: btf.GlobalVar}},
			"finding the kernel's preemption count: pcpu_hot has no preempt_count"},
		{"no thread_info", "arm64", []btf.Type{&btf.Struct{Name: "task_struct", Size: 4, Members: task.Members[:1]}, info},
			"finding the kernel's preemption count: a task has no thread_info with a preempt_count"},
		{"another CPU", "riscv64", nil, "finding the kernel's preemption count: not known for riscv64"},
	} {
		var got string
		if f, err := codegen.PreemptCount(c.arch, typesOf(t, append(c.types, integer)...)); err != nil {
			got = err.Error()
		} else {
			var lines []string
			for _, ins := range f.Insns {
				line, _ := codegen.FormatInstruction(ins)
				lines = append(lines, line)
			}
			got = strings.Join(lines, "; ")
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, d)
		}
	}
}

// TestFindKfuncs: ids are those of the kernel's BTF, and 0 for what it has not; without the first no
// program runs at both ends.
func TestFindKfuncs(t *testing.T) {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4}}
	function := func(name string) btf.Type { return &btf.Func{Name: name, Type: proto, Linkage: btf.StaticFunc} }
	types := typesOf(t, function("bpf_session_is_return"), function("bpf_session_cookie"), function("bpf_rdonly_cast"))
	found := codegen.FindKfuncs(types)
	for name, id := range map[string]btf.TypeID{"bpf_session_is_return": found.IsReturn, "bpf_session_cookie": found.Cookie, "bpf_rdonly_cast": found.Cast} {
		if f, err := types.TypeByID(id); err != nil || f.TypeName() != name {
			t.Errorf("%s: %d is %v, %v", name, id, f, err)
		}
	}
	insns, err := found.TrySession()
	if err != nil || len(insns) != 7 || !insns[1].IsKfuncCall() || !insns[3].IsKfuncCall() {
		t.Errorf("%v, %v", insns, err)
	}
	none := codegen.FindKfuncs(typesOf(t, function("other")))
	if none != (codegen.Kfuncs{}) {
		t.Errorf("%v", none)
	}
	if _, err := none.TrySession(); err == nil || !strings.Contains(err.Error(), "bpf_session_is_return (Linux 6.10)") {
		t.Error(err)
	}
}
