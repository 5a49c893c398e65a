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
func (v *View) TypesByName(spelling, module string) ([]btf.Type, error) {
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
