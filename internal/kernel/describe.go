// SPDX-License-Identifier: Apache-2.0

package kernel

// addTypes completes functions found in t: it adds their types and says whether their names
// are unique.
//
// If the compiler made a copy of a function (.isra, .constprop) or renamed it (.llvm), BTF describes the copy
// under the original's name, provided that the arguments are where the signature says;
// pahole leaves out others. If the original exists too, the description is the original's.
// Of several names of the same code, BTF has one.
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

// namesakes reports whether other symbols have the function's name, in its module or
// elsewhere. Symbols of data count too, since the kernel counts them before it accepts a
// name for a kprobe.
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

// count returns the number of functions with a name in a module.
func (t *symbolTable) count(name, module string) (n int) {
	for _, i := range t.called(name) {
		if t.module(&t.symbols[i]) == module {
			n++
		}
	}
	return n
}

// describeAlias sets the function's type to the one that BTF has under another name of its
// code.
func (v *View) describeAlias(t *symbolTable, f *Function) error {
	for _, i := range t.at(f.Addr) {
		s := &t.symbols[i]
		if f.Type != nil || !s.text() || t.name(s) == f.Name || t.module(s) != f.Module {
			continue
		}
		if err := v.describe(f, t.name(s)); err != nil {
			return err
		}
		f.Alias = f.Type != nil && f.Type.Name == t.name(s)
	}
	return nil
}

// describe sets the function's type to the one that BTF has under name.
func (v *View) describe(f *Function, name string) error {
	info, err := v.moduleInfo(f.Module)
	if err != nil {
		return nil // without BTF, the function exists all the same
	}
	types, err := info.funcs(name)
	if err != nil {
		return err
	}
	// With several signatures, it is unknown which belongs to the function.
	if len(types) == 1 {
		f.Type = types[0]
	}
	return nil
}
