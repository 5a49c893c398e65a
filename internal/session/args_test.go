// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A large struct that is passed by the address of a copy is shown as the struct
// that the function takes; nothing is shown of a copy that could not be read.
func TestDecodeArgsByReference(t *testing.T) {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	big := &btf.Struct{Name: "big", Size: 24, Members: []btf.Member{{Name: "a", Type: long}, {Name: "b", Type: long, Offset: 64}, {Name: "c", Type: long, Offset: 128}}}
	params := []layout.Param{{Param: expr.Param{Name: "x", Type: big}}, {Param: expr.Param{Name: "n", Type: long}}}
	fn := &plan.Probe{Probe: layout.Probe{Args: []layout.Arg{
		{Param: &params[0], Word: 0, Words: 1, Target: big, Size: 24, Ref: true},
		{Param: &params[1], Word: 1, Words: 1},
	}}}
	content := words(11, 12, 13)
	target := func(size uint16, flags byte, data []byte) []byte {
		head := append(binary.LittleEndian.AppendUint16(nil, size), flags, 0, 0, 0, 0, 0)
		return append(append(words(0xffff800008000000, 7), head...), data...)
	}
	for _, tt := range []struct {
		name string
		data []byte
		want []byte
	}{
		{"read", target(24, 0, content), content},
		{"unreadable", target(0, 1, nil), nil},
		{"no room for it", words(0xffff800008000000, 7), nil},
	} {
		var v Values
		if err := decodeArgs(&v, fn, tt.data); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := v.Args[0]; !bytes.Equal(got.Value, tt.want) || (got.Value == nil) != (tt.want == nil) || got.Target != nil {
			t.Errorf("%s: %x, pointing to %x, want %x", tt.name, got.Value, got.Target, tt.want)
		}
		if !bytes.Equal(v.Args[1].Value, words(7)) {
			t.Errorf("%s: the argument behind it is %x", tt.name, v.Args[1].Value)
		}
	}
}

// An argument behind the words that are captured is not unreadable. Of six longs and
// nine on the stack, with amd64's ABI, the twelfth is the last that is captured.
func TestDecodeArgsBeyond(t *testing.T) {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	var params []layout.Param
	for i := range 15 {
		loc := layout.Loc{Reg: i, Slots: 1}
		if i >= 6 {
			loc = layout.Loc{Reg: -1, Stack: 8 * (i - 5), Slots: 1} // behind the return address
		}
		params = append(params, layout.Param{Param: expr.Param{Name: "x", Type: long}, Loc: loc})
	}
	fn := &plan.Probe{Probe: layout.Probe{Args: layout.ArgsOf(params, "amd64")}}
	var v Values
	if err := decodeArgs(&v, fn, words(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)); err != nil {
		t.Fatal(err)
	}
	for i, a := range v.Args {
		if beyond := i >= 12; a.Beyond != beyond || (a.Value == nil) != beyond || !beyond && !bytes.Equal(a.Value, words(uint64(i))) {
			t.Errorf("argument %d is %x, beyond %v", i, a.Value, a.Beyond)
		}
	}
}

// The helper that copies a string returns the same for one that fills all the
// bytes there are as for a longer one. Less is shown of both, and a mark.
func TestDecodeArgsText(t *testing.T) {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	param := layout.Param{Param: expr.Param{Name: "name", Type: &btf.Pointer{Target: char}}}
	fn := &plan.Probe{Probe: layout.Probe{Args: []layout.Arg{{Param: &param, Words: 1, Target: char, Text: true, Size: 256}}}}
	for _, tt := range []struct {
		captured, want string
		cut            bool
	}{
		{"", "", false}, // of user space
		{"\x00", "", false},
		{"eth0\x00", "eth0", false},
		{strings.Repeat("x", 254) + "\x00", strings.Repeat("x", 254), false},
		{strings.Repeat("x", 255) + "\x00", strings.Repeat("x", 254), true},
	} {
		data := binary.LittleEndian.AppendUint16(words(0xffff800008000000), uint16(len(tt.captured)))
		data = append(append(data, 0, 0, 0, 0, 0, 0), tt.captured...)
		var v Values
		if err := decodeArgs(&v, fn, data); err != nil {
			t.Fatal(err)
		}
		if a := v.Args[0]; string(a.Target) != tt.want || a.Cut != tt.cut || !a.Text {
			t.Errorf("%d bytes: %q, cut %t", len(tt.captured), a.Target, a.Cut)
		}
	}
}
