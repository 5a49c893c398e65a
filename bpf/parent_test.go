// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"reflect"
	"testing"
)

// TestParentRecords: a session's record has what was found of its parent behind its owner.
func TestParentRecords(t *testing.T) {
	text := Parent{Kind: ParentText, Size: 55}
	copy(text.Data[:], "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	span := Parent{Kind: ParentSpan}
	copy(span.Data[:], "0123456789abcdef12345678")
	long := text
	long.Size = 57
	for _, c := range []struct {
		parent Parent
		bytes  string
		look   bool
	}{
		{text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
		{span, "0123456789abcdef12345678", false},
		{long, "", false},
		{Parent{Why: LackUnknown, Look: true}, "", true},
		{Parent{Kind: ParentText, Look: true}, "", true},
		{Parent{Why: LackUnsampled}, "", false},
		{Parent{Why: LackDeep}, "", false},
	} {
		for _, owned := range []bool{false, true} {
			want := SessionHeader{Start: 1, PID: 7, TID: 8, Inner: Inner{PID: 3, TID: 4, Ours: true}, Kind: SessionEnd, HasParent: true, Parent: c.parent, HasOwner: owned}
			if owned {
				want.Owner = Owner{UID: 1000, Cgroup: 5}
			}
			raw := AppendSession(nil, &want)
			var got SessionHeader
			if rest, err := DecodeSession(raw, &got); err != nil || !reflect.DeepEqual(got, want) || len(rest) != 0 {
				t.Errorf("%+v: %v, %d bytes are left; want %+v", got, err, len(rest), want)
			}
			if b := got.Parent.Bytes(); !bytes.Equal(b, []byte(c.bytes)) {
				t.Errorf("%+v: %q, want %q", c.parent, b, c.bytes)
			}
			if pid, inner, ok := LookAt(raw); ok != c.look || ok && (pid != 7 || inner != want.Inner) {
				t.Errorf("%+v: process %d (%+v) is to be looked at: %v", c.parent, pid, inner, ok)
			}
			if _, err := DecodeSession(raw[:len(raw)-1], &got); err == nil {
				t.Error("a record that ends in its parent is taken")
			}
		}
	}
	if _, _, ok := LookAt(AppendSession(nil, &SessionHeader{Kind: SessionEnd})); ok {
		t.Error("a session whose parent was not looked for asks for its program")
	}
}
