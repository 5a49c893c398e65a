// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
)

// TestImplicit: a kfunc has the parameters that the verifier adds, which BTF has under another name
// since Linux 7.0 (tools/bpf/resolve_btfids/main.c), and nothing else has those of a function with
// such a name.
func TestImplicit(t *testing.T) {
	pointer := func(to btf.Type) btf.Type { return &btf.Pointer{Target: to} }
	aux := pointer(&btf.Const{Type: &btf.Struct{Name: "bpf_prog_aux", Size: 4, Members: []btf.Member{{Name: "id", Type: fakeInt}}}})
	meta := pointer(&btf.Struct{Name: "btf_struct_meta", Size: 4, Members: []btf.Member{{Name: "id", Type: fakeInt}}})
	type param = btf.FuncParam
	function := func(name string, kfunc bool, params ...param) btf.Type {
		f := &btf.Func{Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: fakeInt, Params: params}}
		if kfunc {
			f.Tags = []string{"bpf_kfunc"}
		}
		return f
	}
	a, b := param{Name: "a", Type: fakeInt}, param{Name: "b", Type: pointer(fakeInt)}
	arena := param{Name: "b", Type: pointer(&btf.TypeTag{Value: "address_space(1)", Type: fakeInt})}
	ends := func(t btf.Type) param { return param{Name: "end", Type: t} }
	data := blob(t,
		function("made", true, a, b), function("made_impl", false, a, b, ends(aux)),
		function("none", true), function("none_impl", false, ends(aux)),
		function("arena", true, a, arena), function("arena_impl", false, a, b, ends(aux)),
		function("list", true, a), function("list_impl", false, a, ends(meta), param{Name: "off", Type: fakeInt}),
		function("old", true, a), function("old_impl", true, a, ends(pointer(&btf.Void{})), param{Name: "off", Type: fakeInt}),
		function("plain", false, a), function("plain_impl", false, a, ends(aux)),
		function("other", true, a), function("other_impl", false, a, ends(pointer(fakeInt))),
		function("named", true, a), function("named_impl", true, b, ends(aux)),
		function("same", true, a), function("same_impl", true, a),
		function("alone", true, a),
	)
	v := Open(fstest.MapFS{vmlinuxFile: {Data: data}})
	for name, want := range map[string]int{"made": 3, "none": 1, "arena": 3, "list": 3, "old": 3, "plain": 1, "other": 1, "named": 1, "same": 1, "alone": 1} {
		found, err := v.exact(name, "")
		if err != nil || len(found) != 1 {
			t.Fatal(name, found, err)
		}
		if n := len(found[0].Type.Type.(*btf.FuncProto).Params); n != want || found[0].Name != name {
			t.Errorf("%s has %d parameters, want %d", found[0], n, want)
		}
		made := want > 1 || name == "none"
		attach, _ := v.Attachable(found[0])
		var refused *RefusedError
		if made != (errors.As(attach.fentry, &refused) && refused.Why == Implicit) {
			t.Errorf("%s: fentry: %v", name, attach.fentry)
		}
	}
	having, err := v.Having([]Spelling{{Names: []string{"struct bpf_prog_aux"}, Stars: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"made": true, "made_impl": true, "none": true, "list": false, "plain": false, "plain_impl": true, "alone": false} {
		if having(Function{Name: name}) != want {
			t.Errorf("%s has a bpf_prog_aux: %v", name, !want)
		}
	}
}
