// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// implicitSuffix ends the name under which BTF has all parameters of a kfunc.
const implicitSuffix = "_impl"

// kfuncTag marks a kfunc in BTF.
const kfuncTag = "bpf_kfunc"

// whole returns a function with all its parameters. Since Linux 7.0, BTF has two types of a kfunc with
// implicit arguments, which the verifier adds to a call: under its name the one without them, that
// programs see, and the whole one under the name with a suffix (KF_IMPLICIT_ARGS;
// tools/bpf/resolve_btfids/main.c). Some such types are at the same time those of an older kfunc.
func (i *typeInfo) whole(f *btf.Func) (*btf.Func, error) {
	if !slices.Contains(f.Tags, kfuncTag) {
		return f, nil
	}
	types, err := i.byName(f.Name + implicitSuffix)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	for _, t := range types {
		if g, ok := t.(*btf.Func); ok && addsImplicit(f, g) {
			return g, nil
		}
	}
	return f, nil
}

// isWhole reports whether a kfunc has its type by another name.
func (i *typeInfo) isWhole(kfunc, name string) bool {
	types, err := i.funcs(kfunc)
	return err == nil && len(types) == 1 && types[0].Name == name
}

// addsImplicit reports whether g has the parameters of f and implicit ones. Their types may differ: only
// those that programs see have the tags of arenas.
func addsImplicit(f, g *btf.Func) bool {
	seen, ok1 := f.Type.(*btf.FuncProto)
	all, ok2 := g.Type.(*btf.FuncProto)
	if !ok1 || !ok2 || len(all.Params) <= len(seen.Params) {
		return false
	}
	for i, p := range seen.Params {
		if all.Params[i].Name != p.Name {
			return false
		}
	}
	if slices.Contains(g.Tags, kfuncTag) {
		return true // what it adds are placeholders: void *, and numbers
	}
	p, ok := btf.UnderlyingType(all.Params[len(seen.Params)].Type).(*btf.Pointer)
	if !ok {
		return false
	}
	to, ok := btf.UnderlyingType(p.Target).(*btf.Struct)
	return ok && slices.Contains([]string{"bpf_prog_aux", "btf_struct_meta"}, to.Name)
}
