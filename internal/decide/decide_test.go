// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

const (
	entry  = 0x1000
	helper = 0x2000
	thunk  = 0x3000
	truth  = 0x4000
	hidden = 0x5000
	zero   = 1 << 6 // the flag
	sign   = 1 << 7
)

var (
	number   = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	unsigned = &btf.Int{Name: "unsigned int", Size: 4}
	attr     = &btf.Struct{Name: "attr", Size: 12, Members: []btf.Member{
		{Name: "type", Type: unsigned},
		{Type: &btf.Union{Size: 4, Members: []btf.Member{{Name: "key_size", Type: unsigned}, {Name: "count", Type: number}}}, Offset: 32},
		{Name: "flags", Type: unsigned, Offset: 64},
	}}
	checkType = &btf.Func{Name: "check", Type: &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "attr", Type: &btf.Pointer{Target: attr}}, {Name: "n", Type: number}}}}
)

// call makes the path of a call of check, whose code of amd64 is given and which has made steps.
func call(t *testing.T, text []byte, steps ...bpf.PathStep) (*event.Event, *event.Path) {
	t.Helper()
	return callOf(t, "amd64", text, steps...)
}

func callOf(t *testing.T, arch string, text []byte, steps ...bpf.PathStep) (*event.Event, *event.Path) {
	t.Helper()
	way, err := plan.NewWay(code.Function{Arch: arch, Parts: []code.Part{{Addr: entry, Bytes: text}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	way.Callees = code.Callees{{Addr: helper, Name: "helper", Kind: code.Returning, Result: code.Class{Size: 4, Signed: true}}, {Addr: thunk, Name: "__pi___x86_indirect_thunk_rax", Kind: code.Through},
		{Addr: truth, Name: "truth", Kind: code.Returning, Result: plan.ClassOf(&btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool})},
		{Addr: hidden, Name: "hidden", Result: code.Class{Size: 4, Signed: true}}}
	probe := &plan.Probe{Func: kernel.Function{Name: "check", Addr: entry, Type: checkType}, Way: way}
	s := bpf.Section{Kind: bpf.SectionPath, Data: bpf.AppendSteps(nil, steps)}
	e := &event.Event{Probe: probe, Tail: bpf.AppendSection(nil, &s)}
	path, ok := e.Path()
	if !ok || path.Way == nil || path.Way.Broken != 0 && len(steps) > 0 {
		t.Fatalf("%+v", path)
	}
	return e, &path
}

// step is a step at a jump, with the flags and the first operand.
func step(site int, flags, value uint64) bpf.PathStep {
	return bpf.PathStep{Site: site, Word: flags, Value: [2]uint64{value}}
}

func TestOf(t *testing.T) {
	keyed := []byte{ // cmpl $4, 4(%rdi); jne 1f; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
		0x83, 0x7f, 0x04, 0x04, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}
	// testb $2, 8(%rdi); jne 1f; xor %eax, %eax; ret; 1: mov $-1, %eax; ret
	flagged := []byte{0xf6, 0x47, 0x08, 0x02, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xff, 0xff, 0xff, 0xff, 0xc3}
	// push %rbx; mov $-12, %ebx; test %esi, %esi; js 1f; xor %ebx, %ebx; 1: mov %rdi, %rdi;
	// test %rdi, %rdi; je 2f; nop; 2: mov %ebx, %eax; pop %rbx; ret
	cleaned := []byte{0x53, 0xbb, 0xf4, 0xff, 0xff, 0xff, 0x85, 0xf6, 0x78, 0x02, 0x31, 0xdb, 0x48, 0x89, 0xff, 0x48, 0x85, 0xff, 0x74, 0x01, 0x90, 0x89, 0xd8, 0x5b, 0xc3}
	// sub $8, %rsp; call helper; test %eax, %eax; js 1f; xor %eax, %eax; 1: add $8, %rsp; ret
	called := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x0f, 0, 0, 0x85, 0xc0, 0x78, 0x02, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	untraced := bytes.Clone(called) // call hidden
	untraced[7] = 0x3f
	// sub $8, %rsp; nop; call hidden; test %eax, %eax; js 1f; xor %eax, %eax; add $8, %rsp; ret; 1: mov $-13, %eax; add $8, %rsp; ret
	tests := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x3f, 0, 0, 0x85, 0xc0, 0x78, 0x07, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xf3, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	// mov $-22, %eax; xor %edx, %edx; cmp $3, %esi; cmovne %edx, %eax; ret
	chosen := []byte{0xb8, 0xea, 0xff, 0xff, 0xff, 0x31, 0xd2, 0x83, 0xfe, 0x03, 0x0f, 0x45, 0xc2, 0xc3}
	note := []plan.Note{{Addr: entry + 4, Lines: []plan.Line{{Place: "kernel/a.c:58:29"}}, Text: "if (p->key_size != 4)",
		Names: []plan.Name{{Text: "p->key_size", Class: code.Class{Size: 4}}}}}
	// sub $8, %rsp; nop; call thunk; add $8, %rsp; ret
	through := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x1f, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	// 1: call helper; test %eax, %eax; js 4f; mov $-22, %ebx; cmp $3, %ebp; je 2f; call helper; mov %eax, %ebx;
	// 2: cmpl $0, 0x100(%rsp); je 3f; call helper; mov %eax, %ebx; test %eax, %eax; je 1b; 3: mov %ebx, %eax; 4: ret
	retried := []byte{0x53, 0x55, 0x48, 0x83, 0xec, 0x08, 0x89, 0xf5, 0xe8, 0xf3, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x78, 0x28, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x83, 0xfd, 0x03, 0x74, 0x07, 0xe8, 0xe0, 0x0f, 0x00, 0x00, 0x89, 0xc3, 0x83, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00, 0x00, 0x74, 0x0b, 0xe8, 0xcf, 0x0f, 0x00, 0x00, 0x89, 0xc3, 0x85, 0xc0, 0x74, 0xd1, 0x89, 0xd8, 0x48, 0x83, 0xc4, 0x08, 0x5d, 0x5b, 0xc3}
	// 1: call helper; test %eax, %eax; js 4f; mov $-4, %ebx; cmpl $0, 0x100(%rsp); jne 2f; cmpl $0, 0x108(%rsp); je 1b;
	// mov %ebx, %eax; jmp 4f; 2: xor %eax, %eax; 4: ret
	waits := []byte{0x53, 0x48, 0x83, 0xec, 0x10, 0xe8, 0xf6, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x78, 0x1f, 0xbb, 0xfc, 0xff, 0xff, 0xff, 0x83, 0xbc, 0x24, 0x00, 0x01, 0x00, 0x00, 0x00, 0x75, 0x0e, 0x83, 0xbc, 0x24, 0x08, 0x01, 0x00, 0x00, 0x00, 0x74, 0xde, 0x89, 0xd8, 0xeb, 0x02, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3}
	// cmp $3, %esi; jne 1f; xor %ecx, %ecx; 2: add $1, %ecx; cmp (%rdi), %ecx; jne 2b; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
	counts := []byte{0x83, 0xfe, 0x03, 0x75, 0x0c, 0x31, 0xc9, 0x83, 0xc1, 0x01, 0x3b, 0x0f, 0x75, 0xf9, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}
	// mov $-22, %ebx; cmp $3, %esi; je 1f; xor %ebx, %ebx; 1: cmpl $0, (%rdi); je 2f; lock xadd %eax, (%rdi); 2: mov %ebx, %eax
	counted := []byte{0x53, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x83, 0xfe, 0x03, 0x74, 0x02, 0x31, 0xdb, 0x83, 0x3f, 0x00, 0x74, 0x04, 0xf0, 0x0f, 0xc1, 0x07, 0x89, 0xd8, 0x5b, 0xc3}
	// test %rdi, %rdi; je 3f; cmp $3, %esi; je 2f; sub $8, %rsp; nop; call helper; test %eax, %eax; jne 1f; mov $-5, %eax;
	// 1: add $8, %rsp; ret; 2: mov $-22, %eax; ret; 3: xor %eax, %eax; ret
	handed := []byte{0x48, 0x85, 0xff, 0x74, 0x23, 0x83, 0xfe, 0x03, 0x74, 0x18, 0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xec, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x75, 0x05, 0xb8, 0xfb, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3, 0x31, 0xc0, 0xc3}
	// cmpl $0, (%rdi); je 1f; mov %rdi, %rcx; jmp 2f; 1: xor %ecx, %ecx; mov $-95, %eax; 2: cmp $3, %esi; je 3f;
	// test %rcx, %rcx; jne 3f; ret; 3: xor %eax, %eax; ret
	early := []byte{0x83, 0x3f, 0x00, 0x74, 0x05, 0x48, 0x89, 0xf9, 0xeb, 0x07, 0x31, 0xc9, 0xb8, 0xa1, 0xff, 0xff, 0xff, 0x83, 0xfe, 0x03, 0x74, 0x06, 0x48, 0x85, 0xc9, 0x75, 0x01, 0xc3, 0x31, 0xc0, 0xc3}
	found := []plan.Note{{Addr: entry + 0x19, Names: []plan.Name{{Text: "found", Class: code.Class{Size: 8, Pointer: true}}}}}
	signed := bytes.Clone(handed) // js 1f
	signed[22] = 0x78
	// push %rbx; mov $-22, %ebx; cmp $3, %esi; je 1f; xor %ebx, %ebx; ud1 (%edx), %rdi; 1: mov %ebx, %eax; pop %rbx; ret
	warns := []byte{0x53, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x83, 0xfe, 0x03, 0x74, 0x07, 0x31, 0xdb, 0x67, 0x48, 0x0f, 0xb9, 0x3a, 0x89, 0xd8, 0x5b, 0xc3}
	// push %rbx; mov $-22, %ebx; ud1 (%edx), %rdi; cmp $3, %esi; je 1f; xor %ebx, %ebx; 1: mov %ebx, %eax; pop %rbx; ret
	warned := []byte{0x53, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x67, 0x48, 0x0f, 0xb9, 0x3a, 0x83, 0xfe, 0x03, 0x74, 0x02, 0x31, 0xdb, 0x89, 0xd8, 0x5b, 0xc3}
	// cmpl $4, 4(%rdi); jne 1f; mov %rdi, %rax; ret; 1: xor %eax, %eax; ret
	null := []byte{0x83, 0x7f, 0x04, 0x04, 0x75, 0x04, 0x48, 0x89, 0xf8, 0xc3, 0x31, 0xc0, 0xc3}
	// sub $8, %rsp; nop; call helper; test %eax, %eax; jne 1f; cmp $3, %ebp; je 2f; test %eax, %eax; je 2f;
	// 1: mov $1, %eax; jmp 3f; 2: xor %eax, %eax; 3: add $8, %rsp; ret
	again := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 0x09, 0x83, 0xfd, 0x03, 0x74, 0x0b, 0x85, 0xc0, 0x74, 0x07, 0xb8, 0x01, 0, 0, 0, 0xeb, 0x02, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	// test %esi, %esi; je 1f; jmp thunk; 1: xor %eax, %eax; ret
	avoided := []byte{0x85, 0xf6, 0x74, 0x05, 0xe9, 0xf7, 0x1f, 0, 0, 0x31, 0xc0, 0xc3}
	direct := bytes.Clone(avoided) // jmp helper
	direct[6] = 0x0f
	// test %esi, %esi; jne helper; xor %eax, %eax; ret
	itself := []byte{0x85, 0xf6, 0x0f, 0x85, 0xf8, 0x0f, 0, 0, 0x31, 0xc0, 0xc3}
	// test %esi, %esi; je 1f; mov $-22, %edi; jmp helper; 1: xor %eax, %eax; ret
	passes := []byte{0x85, 0xf6, 0x74, 0x0a, 0xbf, 0xea, 0xff, 0xff, 0xff, 0xe9, 0xf2, 0x0f, 0, 0, 0x31, 0xc0, 0xc3}
	// 1: call helper; mov %rax, %rbx; test %rbx, %rbx; jne 3f; cmpl $0, 0x100(%rsp); je 2f; cmpl $0, 0x108(%rsp); jne 1b;
	// 2: xor %ebx, %ebx; 3: mov %rbx, %rax; ret
	waiting := []byte{0x53, 0x48, 0x83, 0xec, 0x10, 0xe8, 0xf6, 0x0f, 0, 0, 0x48, 0x89, 0xc3, 0x48, 0x85, 0xdb, 0x75, 0x16, 0x83, 0xbc, 0x24, 0x00, 0x01, 0, 0, 0, 0x74, 0x0a, 0x83, 0xbc, 0x24, 0x08, 0x01, 0, 0, 0, 0x75, 0xdf, 0x31, 0xdb, 0x48, 0x89, 0xd8, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3}
	kept := bytes.Clone(waiting) // 2: nop; nop
	kept[38], kept[39] = 0x90, 0x90
	for _, tt := range []struct {
		name   string
		text   []byte
		steps  []bpf.PathStep
		notes  []plan.Note
		failed expr.Term // what the SPEC has, besides path()
		want   *Verdict  // nil: nothing is said
	}{
		{"a member of a union", keyed, []bpf.PathStep{step(0, 0, 3)}, nil, nil,
			&Verdict{Error: -22, Holds: "attr->key_size (3) != 4", Needed: "attr->key_size == 4", Or: []string{"attr->count"}}},
		{"a variable of inlined code", keyed, []bpf.PathStep{step(0, 0, 3)}, note, nil,
			&Verdict{Error: -22, Holds: "p->key_size (3) != 4", Needed: "p->key_size == 4", Lines: note[0].Lines, Text: note[0].Text}},
		{"without an error", keyed, []bpf.PathStep{step(0, zero, 4)}, nil, nil, nil},
		{"another error than the code makes", keyed, []bpf.PathStep{step(0, 0, 3)}, nil, compare(expr.OpEq, -7), &Verdict{Error: -7, Decision: -1, Unsure: true}},
		{"bits", flagged, []bpf.PathStep{step(0, 0, 3)}, nil, nil,
			&Verdict{Error: -1, Holds: "(attr->flags & 0x2) != 0", Needed: "(attr->flags & 0x2) == 0"}},
		{"cleaning up decides nothing", cleaned, []bpf.PathStep{step(0, sign, 0xffffffff), step(1, 0, 5)}, nil, nil,
			&Verdict{Error: -12, Holds: "n (-1) < 0", Needed: "n >= 0"}},
		{"what a function returned", called, []bpf.PathStep{step(0, sign, 0xfffffff3)}, nil, nil,
			&Verdict{Error: -13, Holds: "helper() (-EACCES) < 0", Needed: "helper() >= 0", Called: "helper", From: helper}},
		{"what a function returned that cannot be traced", untraced, []bpf.PathStep{step(0, sign, 0xfffffff3)}, nil, nil,
			&Verdict{Error: -13, Decision: -1, Unsure: true, Called: "hidden", From: hidden}},
		{"the error that a function returned, made again", tests, []bpf.PathStep{step(0, sign, 0xfffffff3)}, nil, nil,
			&Verdict{Error: -13, Holds: "hidden() (-EACCES) < 0", Needed: "hidden() >= 0", From: hidden}},
		{"another error than a function returned", tests, []bpf.PathStep{step(0, sign, 0xfffffff4)}, nil, nil,
			&Verdict{Error: -13, Holds: "hidden() (-ENOMEM) < 0", Needed: "hidden() >= 0"}},
		{"what a function returned without an error", called, []bpf.PathStep{step(0, 0, 3)}, nil, nil, nil},
		{"through a thunk", through, nil, nil, compare(expr.OpLt, 0), &Verdict{Decision: -1, Indirect: true, From: entry + 5}},
		{"through a thunk, and nobody knows what", through, nil, nil, nil, nil},
		{"what avoids a call through a pointer (sysfs_kf_write)", avoided, []bpf.PathStep{step(0, 0, 3)}, nil, compare(expr.OpEq, -22), &Verdict{Error: -22, Decision: -1, Indirect: true, From: entry + 4}},
		{"what avoids a call", direct, []bpf.PathStep{step(0, 0, 3)}, nil, compare(expr.OpEq, -22), &Verdict{Error: -22, Decision: -1, Called: "helper", From: helper}},
		{"a jump that is the call", itself, []bpf.PathStep{step(0, 0, 3)}, nil, compare(expr.OpEq, -22), &Verdict{Error: -22, Decision: -1, Called: "helper", From: helper}},
		{"a call that was handed the error", passes, []bpf.PathStep{step(0, 0, 3)}, nil, compare(expr.OpEq, -22), &Verdict{Error: -22, Holds: "n (3) != 0", Needed: "n == 0", Called: "helper", From: helper}},
		{"a sign that the type has not", []byte{0x83, 0x7f, 0x08, 0x00, 0x78, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}, []bpf.PathStep{step(0, sign, 0x80000000)}, nil, nil,
			&Verdict{Error: -22, Holds: "(int)attr->flags (-2147483648) < 0", Needed: "(int)attr->flags >= 0"}},
		// test %edi, %edi; js 1f; mov $-5, %eax; cmp $1, %esi; jne 2f; ret; 1: xor %eax, %eax; ret; 2: ud2
		{"where it would have ended", []byte{0x85, 0xff, 0x78, 0x0b, 0xb8, 0xfb, 0xff, 0xff, 0xff, 0x83, 0xfe, 0x01, 0x75, 0x04, 0xc3, 0x31, 0xc0, 0xc3, 0x0f, 0x0b}, []bpf.PathStep{step(0, 0, 5), step(1, zero, 1)}, nil, nil,
			&Verdict{Error: -5}},
		// mov $-12, %eax; test %esi, %esi; jns 1f; xor %eax, %eax; 1: test %eax, %eax; jne 2f; xor %eax, %eax; 2: ret
		{"what was decided before", []byte{0xb8, 0xf4, 0xff, 0xff, 0xff, 0x85, 0xf6, 0x79, 0x02, 0x31, 0xc0, 0x85, 0xc0, 0x75, 0x02, 0x31, 0xc0, 0xc3}, []bpf.PathStep{step(0, 0, 3), step(1, sign, 0xfffffff4)}, nil, nil,
			&Verdict{Error: -12, Holds: "n (3) >= 0", Needed: "n < 0"}},
		// mov (%rdi), %rax; and $0x900, %eax; cmp $0x800, %rax; jne 1f; mov $-22, %rax; ret; 1: xor %eax, %eax; ret
		{"bits that are compared", []byte{0x8b, 0x07, 0x25, 0x00, 0x09, 0, 0, 0x3d, 0x00, 0x08, 0, 0, 0x75, 0x08, 0x48, 0xc7, 0xc0, 0xea, 0xff, 0xff, 0xff, 0xc3, 0x31, 0xc0, 0xc3}, []bpf.PathStep{step(0, zero, 0x800)}, nil, nil,
			&Verdict{Error: -22, Holds: "(attr->type & 0x900) (0x800) == 0x800", Needed: "(attr->type & 0x900) != 0x800"}},
		// cmp $45, %esi; ja 1f; xor %eax, %eax; ret; 1: mov $-97, %eax; ret
		// push %rbx; cmp $3, %esi; mov $-22, %ebx; je 1f; xor %ebx, %ebx; 1: call helper; test %eax, %eax; jne 2f; mov %ebx, %eax; 2: pop %rbx; ret
		{"what comes behind it, and succeeds", []byte{0x53, 0x83, 0xfe, 0x03, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x74, 0x02, 0x31, 0xdb, 0xe8, 0xee, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 0x02, 0x89, 0xd8, 0x5b, 0xc3}, []bpf.PathStep{step(0, zero, 3), step(1, zero, 0)}, nil, nil,
			&Verdict{Error: -22, Holds: "n (3) == 3", Needed: "n != 3"}},
		// mov 4(%rdi), %eax; lea -1(%rax), %ecx; cmp $9, %ecx; jbe 1f; mov $-7, %eax; ret; 1: xor %eax, %eax; ret
		{"a sum, in a union", []byte{0x8b, 0x47, 0x04, 0x8d, 0x48, 0xff, 0x83, 0xf9, 0x09, 0x76, 0x06, 0xb8, 0xf9, 0xff, 0xff, 0xff, 0xc3, 0x31, 0xc0, 0xc3}, []bpf.PathStep{step(0, 0, 0xffffffff)}, nil, nil,
			&Verdict{Error: -7, Holds: "(attr->key_size - 1) (0xffffffff) > 9", Needed: "(attr->key_size - 1) <= 9", Or: []string{"attr->count"}}},
		// cmp $1, %esi; je 1f; cmp $9, %esi; je 1f; mov $-95, %eax; ret; 1: xor %eax, %eax; ret
		{"several values", []byte{0x83, 0xfe, 0x01, 0x74, 0x0b, 0x83, 0xfe, 0x09, 0x74, 0x06, 0xb8, 0xa1, 0xff, 0xff, 0xff, 0xc3, 0x31, 0xc0, 0xc3}, []bpf.PathStep{step(0, 0, 5), step(1, 0, 5)}, nil, nil,
			&Verdict{Error: -95, Decision: 1, Holds: "n (5) != 9", Needed: "n == 9", Several: true}},
		// cmp $2, %esi; je 1f; cmp $1, %esi; je 2f; mov $-22, %eax; ret; 1: xor %eax, %eax; ret; 2: mov $-1, %eax; ret
		{"one of several values, which is always refused", []byte{0x83, 0xfe, 0x02, 0x74, 0x0b, 0x83, 0xfe, 0x01, 0x74, 0x09, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3, 0x31, 0xc0, 0xc3, 0xb8, 0xff, 0xff, 0xff, 0xff, 0xc3}, []bpf.PathStep{step(0, 0, 1), step(1, zero, 1)}, nil, nil,
			&Verdict{Error: -1, Holds: "n (1) != 2", Needed: "n == 2"}},
		{"a signed number as an unsigned one", []byte{0x83, 0xfe, 0x2d, 0x77, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0x9f, 0xff, 0xff, 0xff, 0xc3}, []bpf.PathStep{step(0, 0, 99)}, nil, nil,
			&Verdict{Error: -97, Holds: "(unsigned)n (99) > 45", Needed: "(unsigned)n <= 45"}},
		{"that it was not tried again", retried, []bpf.PathStep{step(0, 0, 0), step(1, zero, 3), step(2, zero, 0)}, nil, nil,
			&Verdict{Error: -22, Decision: 1, Holds: "n (3) == 3", Needed: "n != 3"}},
		{"what ends a loop that waits", waits, []bpf.PathStep{step(0, 0, 0), step(1, zero, 0), step(2, 0, 1)}, nil, nil, &Verdict{Error: -4, Decision: -1, Unsure: true}},
		{"before a loop that counts", counts, []bpf.PathStep{step(0, 0, 5)}, nil, nil, &Verdict{Error: -22, Holds: "n (5) != 3", Needed: "n == 3"}},
		{"behind it a counter of references", counted, []bpf.PathStep{step(0, zero, 3), step(1, zero, 0)}, nil, nil,
			&Verdict{Error: -22, Holds: "n (3) == 3", Needed: "n != 3"}},
		{"behind it a warning (warninsn of arch/x86/kernel/static_call.c)", warns, []bpf.PathStep{step(0, zero, 3)}, nil, nil, &Verdict{Error: -22, Holds: "n (3) == 3", Needed: "n != 3"}},
		{"a warning before it", warned, []bpf.PathStep{step(0, zero, 3)}, nil, nil, &Verdict{Error: -22, Holds: "n (3) == 3", Needed: "n != 3"}},
		{"before a result that is an error or a count", handed, []bpf.PathStep{step(0, 0, 8), step(1, zero, 3)}, nil, nil,
			&Verdict{Error: -22, Decision: 1, Holds: "n (3) == 3", Needed: "n != 3"}},
		{"before a result that is negative", signed, []bpf.PathStep{step(0, 0, 8), step(1, zero, 3)}, nil, nil,
			&Verdict{Error: -22, Holds: "attr (0x8) != NULL", Needed: "attr == NULL"}},
		{"found before another decision", early, []bpf.PathStep{step(0, zero, 0), step(1, 0, 5), step(2, zero, 0)}, found, nil,
			&Verdict{Error: -95, Decision: 2, Holds: "found (NULL) == NULL", Needed: "found != NULL"}},
		{"found before another decision, without a name", early, []bpf.PathStep{step(0, zero, 0), step(1, 0, 5), step(2, zero, 0)}, nil, nil, &Verdict{Error: -95, Decision: 2}},
		{"NULL, which the SPEC asks for", null, []bpf.PathStep{step(0, 0, 3)}, nil, isNull, &Verdict{Holds: "attr->key_size (3) != 4", Needed: "attr->key_size == 4", Or: []string{"attr->count"}}},
		{"NULL, which it does not ask for", null, []bpf.PathStep{step(0, 0, 3)}, nil, nil, nil},
		{"a result that is tested again (qdisc_create)", again, []bpf.PathStep{step(0, zero, 0), step(1, zero, 3)}, nil, isNull, &Verdict{Holds: "helper() (0) == 0", Needed: "helper() != 0"}},
		{"NULL, and a loop that was left (__skb_try_recv_datagram)", waiting, []bpf.PathStep{step(0, zero, 0), step(1, zero, 0)}, nil, isNull, &Verdict{Decision: -1, Unsure: true}},
		{"NULL of a function, and a loop that was left", kept, []bpf.PathStep{step(0, zero, 0), step(1, zero, 0)}, nil, isNull, &Verdict{Decision: -1, Unsure: true, Called: "helper", From: helper}},
		{"without a jump", chosen, nil, nil, compare(expr.OpEq, -22), &Verdict{Error: -22, Decision: -1, Chosen: entry + 11 - 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, path := call(t, tt.text, tt.steps...)
			e.Probe.Way = e.Probe.Way.Annotated(tt.notes)
			e.Probe.Return = &layout.Half{}
			if tt.failed != nil {
				e.Probe.Return.Predicates = []layout.Predicate{{Term: tt.failed}}
			}
			got, ok := Of(e, path)
			if tt.want == nil {
				if ok {
					t.Errorf("%+v", got)
				}
				return
			}
			if d := cmp.Diff(*tt.want, got); d != "" || !ok {
				t.Errorf("%v %s", ok, d)
			}
		})
	}
}

// isNull is "return == 0" of a function that returns a pointer.
var isNull expr.Term = func() expr.Term {
	pointer, long := &btf.Pointer{Target: &btf.Void{}}, &btf.Int{Name: "unsigned long", Size: 8}
	return &expr.BinaryTerm{T: number, Op: expr.OpEq, X: &expr.Convert{T: long, X: &expr.Result{T: pointer, Width: 8}}, Y: &expr.Const{T: long}}
}()

// compare is "return < n" or "return == n".
func compare(op expr.Op, n int64) expr.Term {
	long := &btf.Int{Size: 8, Encoding: btf.Signed}
	return &expr.BinaryTerm{T: number, Op: op, X: &expr.Convert{T: long, X: &expr.Result{T: number, Width: 4}}, Y: &expr.Const{T: long, V: uint64(n)}}
}

// TestUnknown: of what was not seen nothing is said.
func TestUnknown(t *testing.T) {
	e, path := call(t, []byte{0x83, 0x7f, 0x04, 0x04, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}, step(0, 0, 3))
	path.Missing = 1
	if v, ok := Of(e, path); ok {
		t.Errorf("%+v", v)
	}
}

// TestDeduce: which jump decided in a function that nobody has seen, if there is but one.
func TestDeduce(t *testing.T) {
	di, si := ptregs.Arguments("amd64")[0], ptregs.Arguments("amd64")[1]
	// cmp $2, %esi; jg 1f; test $8, %edi; jne 2f; call helper; ret; 1: mov $-22, %eax; ret; 2: mov $-7, %eax; ret
	text := []byte{0x83, 0xfe, 0x02, 0x7f, 0x0e, 0xf7, 0xc7, 0x08, 0, 0, 0, 0x75, 0x0c, 0xe8, 0xee, 0x0f, 0, 0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3, 0xb8, 0xf9, 0xff, 0xff, 0xff, 0xc3}
	// cmp (%rdi), %esi; je 1f; cmp 4(%rdi), %esi; je 1f; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
	two := []byte{0x3b, 0x37, 0x74, 0x08, 0x3b, 0x77, 0x04, 0x74, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}
	// sub $8, %rsp; nop; call helper; test %eax, %eax; je 1f; cmp (%rcx), %esi; je 1f; xor %eax, %eax; add $8, %rsp; ret;
	// 1: mov $-3, %eax; add $8, %rsp; ret, twice
	looked := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x74, 0x0b, 0x3b, 0x31, 0x74, 0x11, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xfd, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xfd, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	// sub $8, %rsp; nop; call helper; test %eax, %eax; jne 1f; call helper; test %eax, %eax; je 2f; xor %eax, %eax;
	// 1: add $8, %rsp; ret; 2: mov $-3, %eax; add $8, %rsp; ret
	twice := []byte{0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf6, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x75, 0x0b, 0xe8, 0xed, 0x0f, 0x00, 0x00, 0x85, 0xc0, 0x74, 0x07, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xb8, 0xfd, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x08, 0xc3}
	returned := func(n uint64, size, calls int) []code.Called {
		return []code.Called{{Addr: helper, Result: n, Size: size, Calls: calls}}
	}
	for _, tt := range []struct {
		name   string
		text   []byte
		di, si uint64
		called []code.Called
		failed unix.Errno
		want   string
	}{
		{"by an argument", text, 0, 3, nil, unix.EINVAL, "n (3) > 2"},
		{"by the other", text, 8, 1, nil, unix.E2BIG, "(attr & 0x8) != 0"},
		{"an error that the code does not make", text, 0, 1, nil, unix.EINVAL, ""},
		{"an error of functions that nobody looks at", text, 0, 3, nil, unix.EFAULT, ""},
		{"two jumps may have", two, 0, 3, nil, unix.EINVAL, ""},
		{"what was not seen", looked, 0, 3, nil, unix.ESRCH, ""},
		{"what a function returned", looked, 0, 3, returned(0, 4, 1), unix.ESRCH, "helper() (0) == 0"},
		{"a part of the result only", looked, 0, 3, returned(0, 1, 1), unix.ESRCH, ""},
		{"called as often as seen", twice, 0, 3, returned(0, 4, 2), unix.ESRCH, "helper() (0) == 0"},
		{"called more often than seen", twice, 0, 3, returned(0, 4, 1), unix.ESRCH, ""},
	} {
		e, _ := call(t, tt.text)
		v, d, ok := Deduce(e.Probe, []code.Given{{Word: di, Value: tt.di, Size: 8}, {Word: si, Value: tt.si, Size: 4}}, tt.called, tt.failed)
		if ok != (tt.want != "") || v.Holds != tt.want && ok || ok && d.Site == nil {
			t.Errorf("%s: %v %+v", tt.name, ok, v)
		}
	}
}
