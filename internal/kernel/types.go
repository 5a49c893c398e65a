// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// TypesByName returns the types with a C spelling: "struct sk_buff", "union u", "enum e",
// or the bare name of a typedef or base type. The module's own types come before those of
// vmlinux. If module is "", all modules are searched if vmlinux does not have the type. A
// forward declaration counts only without a definition. No match is not an error.
//
// A BPF program that describes a struct of the kernel need not have all of its members, nor their
// places: its loader adjusts it. So the kernel's struct takes the place of the program's.
func (v *View) TypesByName(spelling, module string) ([]btf.Type, error) {
	own, err := v.typesByName(spelling, module)
	if _, program := programOf(module); err != nil || !program || len(own) == 0 {
		return own, err
	}
	kernels, err := v.typesByName(spelling, "")
	if err == nil && len(kernels) == 1 && partOf(own[0], kernels[0]) {
		return kernels, nil
	}
	return own, nil
}

// typesByName is TypesByName, with a program's structs as it has them.
func (v *View) typesByName(spelling, module string) ([]btf.Type, error) {
	kind, name := splitSpelling(spelling)
	if name == "" {
		return nil, nil
	}
	v.sought.add(&v.sought.types, name)
	var declared []btf.Type
	for _, infos := range v.scopes(module) {
		found, err := infos()
		if err != nil {
			return nil, err
		}
		var defined []btf.Type
		for _, info := range found {
			types, err := info.spelled(kind, name)
			if err != nil {
				return nil, err
			}
			for _, t := range types {
				if _, fwd := t.(*btf.Fwd); fwd {
					declared = append(declared, t)
				} else {
					defined = append(defined, t)
				}
			}
		}
		if len(defined) > 0 {
			return defined, nil
		}
	}
	return declared, nil
}

// Enumerators returns the enums with an enumerator called name, searched for in the order
// of TypesByName.
func (v *View) Enumerators(name, module string) ([]*btf.Enum, error) {
	v.sought.add(&v.sought.enumerators, name)
	for _, infos := range v.scopes(module) {
		found, err := infos()
		if err != nil {
			return nil, err
		}
		var enums []*btf.Enum
		for _, info := range found {
			for id := range info.raw.enumsWith(name) {
				t, err := info.byID(id)
				if err != nil {
					return nil, fmt.Errorf("enumerator %s: %w", name, err)
				}
				if e, ok := t.(*btf.Enum); ok {
					enums = append(enums, e)
				}
			}
		}
		if len(enums) > 0 {
			return enums, nil
		}
	}
	return nil, nil
}

// scopes returns the places in which to look up a name, in order. They are functions
// because modules are rarely needed.
func (v *View) scopes(module string) []func() ([]*typeInfo, error) {
	one := func(name string) func() ([]*typeInfo, error) {
		return func() ([]*typeInfo, error) {
			info, err := v.moduleInfo(name)
			return []*typeInfo{info}, err
		}
	}
	if module == "" {
		return []func() ([]*typeInfo, error){one(""), func() ([]*typeInfo, error) { return v.infos("*") }}
	}
	own := func() ([]*typeInfo, error) {
		info, err := v.moduleInfo(module)
		if err != nil {
			return nil, nil // a module without BTF adds no types
		}
		return []*typeInfo{info}, nil
	}
	return []func() ([]*typeInfo, error){own, one("")}
}

// splitSpelling separates the keyword from the name: "struct", "sk_buff".
func splitSpelling(spelling string) (kind, name string) {
	words := strings.Fields(spelling)
	if len(words) == 2 && slices.Contains([]string{"struct", "union", "enum"}, words[0]) {
		return words[0], words[1]
	}
	return "", strings.Join(words, " ")
}

// spelled returns the types of one kind and name.
func (i *typeInfo) spelled(kind, name string) ([]btf.Type, error) {
	if !i.has(name, &i.soughtTypes, i.typed, ^funcKind) {
		return nil, nil
	}
	types, err := i.byName(name)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", name, err)
	}
	return slices.DeleteFunc(types, func(t btf.Type) bool { return kindOf(t) != kind }), nil
}

// partOf reports whether a struct or union of a BPF program is meant to be one of the kernel: most
// of its members are called as those of the kernel's, in which they may be elsewhere.
func partOf(own, kernels btf.Type) bool {
	there := memberNames(kernels)
	if _, declared := own.(*btf.Fwd); declared {
		return there != nil
	}
	names := memberNames(own)
	known := 0
	for name := range names {
		if _, ok := there[name]; ok {
			known++
		}
	}
	return 2*known > len(names)
}

// memberNames returns the names of all members of a struct or union; nil for other types. Those of
// anonymous members are its own.
func memberNames(t btf.Type) map[string]struct{} {
	var names map[string]struct{}
	var add func(t btf.Type, depth int)
	add = func(t btf.Type, depth int) {
		var members []btf.Member
		switch t := btf.UnderlyingType(t).(type) {
		case *btf.Struct:
			members = t.Members
		case *btf.Union:
			members = t.Members
		default:
			return
		}
		if names == nil {
			names = map[string]struct{}{}
		}
		for i := range members {
			if m := &members[i]; m.Name != "" {
				names[m.Name] = struct{}{}
			} else if depth < maxQualifiers {
				add(m.Type, depth+1)
			}
		}
	}
	add(t, 0)
	return names
}

// kindOf returns the keyword before a type's name, or "-" if the type cannot be spelled.
func kindOf(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Struct:
		return "struct"
	case *btf.Union:
		return "union"
	case *btf.Enum:
		return "enum"
	case *btf.Fwd:
		if t.Kind == btf.FwdUnion {
			return "union"
		}
		return "struct"
	case *btf.Typedef, *btf.Int, *btf.Float:
		return ""
	}
	return "-"
}
