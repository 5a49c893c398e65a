// SPDX-License-Identifier: Apache-2.0

package kernel

// A place is a name and the module that it is looked up in.
type place struct{ name, module string }

// addTypes completes functions that were found in t: their types, and whether
// they are the only ones of their name. BTF describes a copy that the compiler
// made under the name of the original, provided that its arguments are where
// the signature says (pahole leaves out the others); if the original is there
// too, the description is that of the original. Of several names of the same
// code it has one.
func (v *View) addTypes(t *symbolTable, funcs []Function) error {
	count := make(map[place]int, len(funcs)) // how many functions there are of a name
	for _, f := range funcs {
		count[place{f.Name, f.Module}] = 0
		if base, ok := copyOf(f.Name); ok {
			count[place{base, f.Module}] = 0
		}
	}
	for i := range t.symbols {
		s := &t.symbols[i]
		if !s.text() {
			continue
		}
		p := place{t.name(s), t.module(s)}
		if n, asked := count[p]; asked {
			count[p] = n + 1
		}
	}
	untyped := make(map[uint64][]*Function)
	for i := range funcs {
		f := &funcs[i]
		f.Namesakes = count[place{f.Name, f.Module}] > 1
		name := f.Name
		if base, ok := copyOf(name); ok {
			if count[place{base, f.Module}] > 0 {
				continue
			}
			name = base
		}
		if err := v.describe(f, name); err != nil {
			return err
		}
		if f.Type == nil && f.Addr != 0 {
			untyped[f.Addr] = append(untyped[f.Addr], f)
		}
	}
	if len(untyped) == 0 {
		return nil
	}
	for i := range t.symbols {
		s := &t.symbols[i]
		for _, f := range untyped[s.addr] {
			if f.Type != nil || !s.text() || t.name(s) == f.Name || t.module(s) != f.Module {
				continue
			}
			if err := v.describe(f, t.name(s)); err != nil {
				return err
			}
			f.Alias = f.Type != nil
		}
	}
	return nil
}

// describe sets the type of a function to that which BTF has under a name.
func (v *View) describe(f *Function, name string) error {
	info, err := v.moduleInfo(f.Module)
	if err != nil {
		return nil // no BTF: the function is there all the same
	}
	types, err := info.funcs(name)
	if err != nil {
		return err
	}
	// With several signatures nobody knows which is whose.
	if len(types) == 1 {
		f.Type = types[0]
	}
	return nil
}
