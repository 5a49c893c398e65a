// SPDX-License-Identifier: Apache-2.0

package progs

import (
	"testing"
	"unsafe"
)

// TestExtensions: a function that a program stands in the place of has its ID. Links of tracing programs are no such.
func TestExtensions(t *testing.T) {
	const progTracing, progXDP = 26, 6
	all := []Program{
		{ID: 11, Type: progXDP, Functions: []Function{{Type: 3}, {Type: 5}}},
		{ID: 12, Type: progXDP, Functions: []Function{{Type: 3}, {Type: 5}}},
		{ID: 20, Type: progExtension},
		{ID: 21, Type: progTracing},
	}
	addExtensions(all, []link{
		{typ: linkTracing, program: 20, target: 11, targetType: 5},
		{typ: linkTracing, program: 21, target: 11, targetType: 3},
		{typ: linkTracing, program: 20, target: 99, targetType: 3},     // not loaded any more
		{typ: linkTracing, program: 99, target: 12, targetType: 3},     // the same
		{typ: linkTracing + 1, program: 20, target: 12, targetType: 3}, // of another kind
	})
	for _, p := range all {
		for _, f := range p.Functions {
			want := uint32(0)
			if p.ID == 11 && f.Type == 5 {
				want = 20
			}
			if f.Extension != want {
				t.Errorf("program %d, function %d: %d stands in its place, want %d", p.ID, f.Type, f.Extension, want)
			}
		}
	}
}

// TestLinkInfo: link has the layout of struct bpf_link_info, in which the union begins at 16.
func TestLinkInfo(t *testing.T) {
	var l link
	if unsafe.Offsetof(l.attach) != 16 || unsafe.Offsetof(l.target) != 20 || unsafe.Offsetof(l.targetType) != 24 {
		t.Errorf("attach type at %d, target at %d, its type at %d", unsafe.Offsetof(l.attach), unsafe.Offsetof(l.target), unsafe.Offsetof(l.targetType))
	}
}
