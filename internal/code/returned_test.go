// SPDX-License-Identifier: Apache-2.0

package code

import "testing"

// TestReturned: what a call has returned, by its code and its way.
func TestReturned(t *testing.T) {
	const entry, helper, thunk, strange, named = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
	callees := Callees{{Addr: helper, Kind: Returning}, {Addr: thunk, Kind: Return}, {Addr: named, Name: "named"}}
	for _, tt := range []struct {
		name  string
		text  []byte
		taken []bool // at each jump
		want  *Value
		left  *Value // of the last condition
	}{
		{"a constant behind a jump", []byte{ // cmpl $4, 4(%rdi); jne 1f; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
			0x83, 0x7f, 0x04, 0x04, 0x75, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}, []bool{true},
			&Value{Kind: Constant, N: -22}, &Value{Kind: Memory, N: 4, Size: 4}},
		{"of a function", []byte{ // push %rbx; nop...; call helper; test %eax, %eax; js 1f; xor %eax, %eax; 1: pop %rbx; ret
			0x53, 0x0f, 0x1f, 0x40, 0x00, 0xe8, 0xf6, 0x0f, 0, 0, 0x85, 0xc0, 0x78, 0x02, 0x31, 0xc0, 0x5b, 0xc3}, []bool{true},
			&Value{Kind: Result, Target: helper}, &Value{Kind: Result, Target: helper}},
		{"kept on the stack", []byte{ // movq $-12, -8(%rsp); nopl 0(%rax); mov -8(%rsp), %rax; jmp thunk
			0x48, 0xc7, 0x44, 0x24, 0xf8, 0xf4, 0xff, 0xff, 0xff, 0x48, 0x8b, 0x44, 0x24, 0xf8, 0xe9, 0xed, 0x1f, 0, 0}, nil,
			&Value{Kind: Constant, N: -12}, nil},
		{"of which a half was written over", []byte{ // movq $-12, -8(%rsp); movl $0, -4(%rsp); mov -8(%rsp), %rax; ret
			0x48, 0xc7, 0x44, 0x24, 0xf8, 0xf4, 0xff, 0xff, 0xff, 0xc7, 0x44, 0x24, 0xfc, 0, 0, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0xf8, 0xc3}, nil,
			&Value{Kind: Opaque}, nil},
		{"kept where a function may change it", []byte{ // push $-12; nopl; mov %rsp, %rdi; call helper; pop %rax; ret
			0x6a, 0xf4, 0x0f, 0x1f, 0x40, 0x00, 0x48, 0x89, 0xe7, 0xe8, 0xf2, 0x0f, 0, 0, 0x58, 0xc3}, nil,
			nil, nil},
		{"over a call of what may keep registers", []byte{ // push %rbx; nopl; mov $-22, %eax; call strange; pop %rbx; ret
			0x53, 0x0f, 0x1f, 0x40, 0x00, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xe8, 0xf1, 0x2f, 0, 0, 0x5b, 0xc3}, nil,
			&Value{Kind: Opaque}, nil},
		{"of a function that cannot be traced", []byte{ // push %rbx; nopl; call named; movslq %eax, %rbx; mov %rbx, %rax; pop %rbx; ret
			0x53, 0x0f, 0x1f, 0x40, 0x00, 0xe8, 0xf6, 0x3f, 0, 0, 0x48, 0x63, 0xd8, 0x48, 0x89, 0xd8, 0x5b, 0xc3}, nil,
			&Value{Kind: Opaque, Target: named}, nil},
		{"chosen without a jump", []byte{ // mov $-22, %eax; xor %edx, %edx; cmp $3, %esi; cmovne %edx, %eax; ret
			0xb8, 0xea, 0xff, 0xff, 0xff, 0x31, 0xd2, 0x83, 0xfe, 0x03, 0x0f, 0x45, 0xc2, 0xc3}, nil,
			&Value{Kind: Chosen}, nil},
		{"a byte of an argument", []byte{ // movzbl %sil, %eax; cmp $3, %eax; je 1f; 1: nop; ret
			0x40, 0x0f, 0xb6, 0xc6, 0x83, 0xf8, 0x03, 0x74, 0x01, 0x90, 0xc3}, []bool{true},
			&Value{Kind: Masked, N: 0xff}, &Value{Kind: Masked, N: 0xff}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Function{Arch: "amd64", Parts: []Part{{entry, tt.text}}}
			g, err := NewGraph(&f)
			if err != nil {
				t.Fatal(err)
			}
			sites := g.Sites(nil)
			var hits []Hit
			for i, taken := range tt.taken {
				hits = append(hits, Hit{i, taken})
			}
			w := f.Walk(g, sites, hits, callees, false)
			same := func(got, want *Value) bool {
				return got == want || got != nil && want != nil && got.Kind == want.Kind && got.N == want.N && got.Target == want.Target && got.Size == want.Size
			}
			if !same(w.Returned, tt.want) {
				t.Errorf("%+v, want %+v", w.Returned, tt.want)
			}
			if tt.left != nil && !same(w.Conditions[len(hits)-1].Left.Value, tt.left) {
				t.Errorf("condition %+v, want %+v", w.Conditions[len(hits)-1], tt.left)
			}
		})
	}
}
