// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// Match returns the functions whose names match a glob, sorted by name, module and address.
// Module glob "" includes vmlinux. A name without * and ? is looked up in BTF, and in
// kallsyms if BTF does not describe it; a function that BTF describes has no address, which
// Locate adds. A glob selects among the functions that can be attached to, as far as that is
// known, and returns them with addresses.
func (v *View) Match(pattern, module string) ([]Function, error) {
	if !glob.Is(pattern) {
		return v.exact(pattern, module)
	}
	t, err := v.functions()
	if err != nil {
		return v.matchBTF(pattern, module)
	}
	return v.selected(t, t.code(glob.Prefix(pattern)), func(f Function) bool {
		return glob.Match(pattern, f.Name) && (module == "" || f.Module != "" && glob.Match(module, f.Module))
	})
}

// Select returns the functions for which keep returns true, among all that can be attached
// to as far as that is known, sorted by name, module and address. keep sees functions
// without types.
func (v *View) Select(keep func(Function) bool) ([]Function, error) {
	t, err := v.functions()
	if err != nil {
		return nil, err
	}
	return v.selected(t, t.code(""), keep)
}

// SelectAt returns the functions at some addresses that can be attached to, as Select does.
func (v *View) SelectAt(addrs []uint64) ([]Function, error) {
	t, err := v.functions()
	if err != nil {
		return nil, err
	}
	return v.selected(t, t.codeAt(addrs), func(Function) bool { return true })
}

// DescribeAt returns the functions at some addresses, also those that cannot be attached to.
func (v *View) DescribeAt(addrs []uint64) ([]Function, error) {
	t, err := v.functions()
	if err != nil {
		return nil, err
	}
	return v.among(t, t.codeAt(addrs), func(Function) bool { return true }, nil)
}

// codeAt returns the symbols of code at some addresses.
func (t *symbolTable) codeAt(addrs []uint64) (symbols []uint32) {
	for _, a := range addrs {
		symbols = append(symbols, t.at(a)...)
	}
	return t.onlyCode(symbols)
}

// selected is Select among some symbols.
func (v *View) selected(t *symbolTable, symbols []uint32, keep func(Function) bool) ([]Function, error) {
	traceable, _ := v.traceable() // nil if unknown
	return v.among(t, symbols, keep, traceable)
}

// among returns the functions that some symbols are, and of these only the traceable ones if that is not nil.
func (v *View) among(t *symbolTable, symbols []uint32, keep func(Function) bool, traceable *traceableSet) ([]Function, error) {
	var found []Function
	for _, i := range symbols {
		f := t.function(i)
		if keep(f) && isFunction(f.Name, f.Module) && (traceable == nil || traceable.symbol(t, int(i))) {
			found = append(found, f)
		}
	}
	if err := v.addTypes(t, found); err != nil {
		return nil, err
	}
	slices.SortFunc(found, compare)
	return found, nil
}

// exact returns the functions with this very name, from BTF if that has them, else from
// kallsyms.
func (v *View) exact(name, module string) ([]Function, error) {
	infos, err := v.infos(module)
	if err != nil {
		return v.exactSymbols(name, module, err)
	}
	var found []Function
	for _, info := range infos {
		types, err := info.seek(name)
		if err != nil {
			return nil, err
		}
		for _, t := range types {
			found = append(found, Function{Name: name, Module: info.name, Type: t})
		}
	}
	if len(found) == 0 {
		return v.exactSymbols(name, module, nil)
	}
	return found, nil
}

// exactSymbols is the slow path of exact: BTF lacks the function, or the kernel has no BTF,
// as noBTF says.
func (v *View) exactSymbols(name, module string, noBTF error) ([]Function, error) {
	t, err := v.functions()
	if err != nil {
		if noBTF != nil {
			return nil, noBTF
		}
		return nil, nil // BTF lacks it, and there is no other source
	}
	meant := func(f Function) bool { return module == "" || f.Module != "" && glob.Match(module, f.Module) }
	var found []Function
	for _, i := range t.called(name) {
		if f := t.function(i); meant(f) {
			found = append(found, f)
		}
	}
	if len(found) == 0 { // the compiler may have left only copies
		for _, i := range t.copiesOf(name) {
			if f := t.function(i); meant(f) && isFunction(f.Name, f.Module) {
				found = append(found, f)
			}
		}
	}
	slices.SortFunc(found, compare)
	return found, v.addTypes(t, found)
}

// matchBTF is Match for a view without symbols.
func (v *View) matchBTF(pattern, module string) ([]Function, error) {
	infos, err := v.infos(module)
	if err != nil {
		return nil, err
	}
	var found []Function
	for _, info := range infos {
		names := make(map[string]bool)
		for name := range info.raw.functions() {
			if glob.Match(pattern, name) {
				names[string(name)] = true
			}
		}
		for name := range names {
			types, err := info.funcs(name)
			if err != nil {
				return nil, err
			}
			for _, t := range types {
				found = append(found, Function{Name: name, Module: info.name, Type: t})
			}
		}
	}
	slices.SortStableFunc(found, compare)
	return found, nil
}

// Locate returns functions with the names and addresses that they have in the running
// kernel. If the compiler only kept copies ("foo.isra.0") or another name ("foo.llvm.123"),
// these take the function's place. A function with several instances is replaced by all of
// them. Functions without a symbol are left out.
func (v *View) Locate(funcs []Function) ([]Function, error) {
	t, whole, err := v.symbolsNamed(funcs)
	if err != nil {
		return nil, err
	}
	found, err := v.locate(t, funcs)
	if err != nil || whole || !slices.ContainsFunc(found, func(f Function) bool { return f.Type == nil }) {
		return found, err
	}
	if t, err = v.functions(); err != nil { // BTF may have them under other names of the same code
		return nil, err
	}
	return v.locate(t, funcs)
}

// locate looks functions up in a table.
func (v *View) locate(t *symbolTable, funcs []Function) ([]Function, error) {
	var found []Function
	done := make(map[place]bool, len(funcs))
	for _, f := range funcs {
		p := place{f.Name, f.Module}
		if done[p] {
			continue
		}
		done[p] = true
		before := len(found)
		for _, all := range [...]func(string) []uint32{t.called, t.copiesOf} {
			for _, i := range all(f.Name) {
				if at := t.function(i); at.Module == f.Module {
					found = append(found, at)
				}
			}
			if len(found) > before {
				break // it exists under its own name
			}
		}
	}
	slices.SortFunc(found, compare)
	return found, v.addTypes(t, found)
}

// A place is a name and the module to look it up in.
type place struct{ name, module string }

// fewLookups is how many names are looked up in the raw headers, one by one. After that, a
// list of all names pays off.
const fewLookups = 16

// has reports whether the blob has a type of the given kinds and name. names returns the
// names of all such types.
func (i *typeInfo) has(name string, sought *atomic.Int32, names func() map[string]struct{}, kinds kindSet) bool {
	if name == "" {
		return false
	}
	if sought.Add(1) > fewLookups {
		_, ok := names()[name]
		return ok
	}
	for range i.raw.named(name, kinds) {
		return true
	}
	return false
}

// seek returns the functions called name. It looks at the raw headers first: most modules
// lack the function and need not be decoded.
func (i *typeInfo) seek(name string) ([]*btf.Func, error) {
	if !i.has(name, &i.soughtFuncs, i.functions, funcKind) {
		return nil, nil
	}
	return i.funcs(name)
}

// funcs returns the functions called name. The caller must not change them.
func (i *typeInfo) funcs(name string) ([]*btf.Func, error) {
	if known, ok := i.described.Load(name); ok {
		return known.([]*btf.Func), nil
	}
	types, err := i.byName(name)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", name, err)
	}
	var funcs []*btf.Func
	for _, t := range types {
		f, ok := t.(*btf.Func)
		if !ok {
			continue
		}
		if f, err = i.whole(f); err != nil {
			return nil, err
		}
		funcs = append(funcs, f)
	}
	i.described.Store(name, funcs)
	return funcs, nil
}
