// SPDX-License-Identifier: Apache-2.0

package kernel

// addTypes completes functions that were found in t: their types, and whether
// their names tell which they are. BTF describes a copy that the compiler
// made under the name of the original, provided that its arguments are where
// the signature says (pahole leaves out the others); if the original is there
// too, the description is that of the original. Of several names of the same
// code it has one.
func (v *View) addTypes(t *symbolTable, funcs []Function) error {
	for i := range funcs {
		f := &funcs[i]
		f.Namesakes, f.Shared = t.namesakes(f.Name, f.Module)
		name := f.Name
		if base, ok := copyOf(name); ok {
			if t.count(base, f.Module) > 0 {
				continue
			}
			name = base
		}
		if err := v.describe(f, name); err != nil {
			return err
		}
		if f.Type == nil && f.Addr != 0 {
			if err := v.describeAlias(t, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// namesakes reports whether other symbols have the name of a function, those of
// data as well: the kernel counts them all before it takes a name for one place.
func (t *symbolTable) namesakes(name, module string) (within, elsewhere bool) {
	n := 0
	for _, i := range t.all(name) {
		switch m := t.module(&t.symbols[i]); {
		case m == module:
			n++
		case !noModule(m):
			elsewhere = true
		}
	}
	return n > 1, elsewhere
}

// count returns how many functions there are of a name in a module.
func (t *symbolTable) count(name, module string) (n int) {
	for _, i := range t.called(name) {
		if t.module(&t.symbols[i]) == module {
			n++
		}
	}
	return n
}

// describeAlias sets the type of a function to that which BTF has under another
// name of its code.
func (v *View) describeAlias(t *symbolTable, f *Function) error {
	for _, i := range t.at(f.Addr) {
		s := &t.symbols[i]
		if f.Type != nil || !s.text() || t.name(s) == f.Name || t.module(s) != f.Module {
			continue
		}
		if err := v.describe(f, t.name(s)); err != nil {
			return err
		}
		f.Alias = f.Type != nil
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
