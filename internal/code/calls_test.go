// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// TestCalls: the code is what as(1) makes of the text beside it.
func TestCalls(t *testing.T) {
	const at = 0xffffffff81000000
	for _, tt := range []struct {
		arch, code string
		want       []Call
	}{
		{"amd64", "f30f1efa" + // endbr64
			"e8f7000000" + // call .+0xfc
			"ffd0" + // call *%rax
			"41ffd3" + // call *%r11
			"ff5310" + // call *0x10(%rbx)
			"ff14c500100081" + // call *-0x7efff000(,%rax,8)
			"3effe2" + // notrack jmp *%rdx
			"7402" + // je .+4, within the code
			"0f84e2000000" + // je 0x100 behind the begin, elsewhere
			"90e9dc000000" + // nop; jmp likewise
			"c3", []Call{
			{From: at + 4, To: at + 0x100}, {From: at + 9, At: "$ax"}, {From: at + 11, At: "$r11"}, {From: at + 14, At: "*(unsigned long *)(0x10 + $bx)"},
			{From: at + 17, At: "*(unsigned long *)(0xffffffff81001000 + $ax * 8)"}, {From: at + 24, At: "$dx", Jump: true},
			{From: at + 29, To: at + 0x105, Jump: true}, {From: at + 36, To: at + 0x105, Jump: true}}},
		{"arm64", "40000094" + // bl .+0x100
			"60023fd6" + // blr x19
			"20021fd6" + // br x17
			"3d000014" + // b .+0xf4
			"e00700b4" + // cbz x0, .+0xfc
			"e1ffff54" + // b.ne .-4, within the code
			"c0035fd6", // ret
			[]Call{{From: at, To: at + 0x100}, {From: at + 4, At: "$x19"}, {From: at + 8, At: "$x17", Jump: true}, {From: at + 12, To: at + 0x100, Jump: true},
				{From: at + 16, To: at + 0x10c, Jump: true}}},
		{"arm64", "4000", nil},
		{"amd64", "06", nil}, // not decodable
		{"amd64", "e8f7", nil},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		got := Calls(tt.arch, code, at)
		for i := range got {
			got[i].Probe, got[i].Sets = 0, "" // see TestCallProbes
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %s:\n%+v, want\n%+v", tt.arch, tt.code, got, tt.want)
		}
	}
}

func TestThunks(t *testing.T) {
	thunks := Thunks()
	if thunks["__x86_indirect_thunk_rax"] != "$ax" || thunks["__x86_indirect_thunk_r15"] != "$r15" || thunks["__x86_indirect_thunk_rdi"] != "$di" || len(thunks) != 16 {
		t.Error(thunks)
	}
	for name := range thunks {
		if strings.Contains(name, "%") {
			t.Error(name)
		}
	}
}
