// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// LookupType returns the type that a spelling such as "unsigned long", "u32" or "struct
// sock" names, or nil if there is none. Of several it is the first. An error comes from types.
func LookupType(name string, types Types) (btf.Type, error) {
	if t, ok := baseType(name); ok {
		return t, nil
	}
	found, err := types.TypesByName(name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// typeNamed resolves the type that a cast or sizeof spells, or reports that it is unknown.
func (c *checker) typeNamed(n TypeName) (btf.Type, bool) {
	t, known := baseType(n.Name)
	if !known {
		found, err := c.scope.Types.TypesByName(n.Name)
		switch {
		case err != nil:
			c.fault(CodeUnknownType, n.Pos, "", "looking up %q: %v", n.Name, err)
			return nil, false
		case len(found) == 0:
			c.fault(CodeUnknownType, n.Pos, c.typeHint(n.Name), "the kernel has no type %q", n.Name)
			return nil, false
		}
		if t, known = c.meant(n, found); !known {
			return nil, false
		}
	}
	for range n.Stars {
		t = pointerTo(t)
	}
	return t, true
}

// typeHint suggests the spelling with struct, union or enum, if such a type exists, or a similar name if
// the scope's types know one.
func (c *checker) typeHint(name string) string {
	bare := name[strings.LastIndexByte(name, ' ')+1:]
	for _, kind := range []string{"struct ", "union ", "enum ", ""} {
		if found, err := c.scope.Types.TypesByName(kind + bare); err == nil && len(found) > 0 {
			return "there is " + strconv.Quote(kind+bare)
		}
	}
	if near, ok := c.scope.Types.(interface{ NearestType(spelling string) string }); ok {
		return suggest.DidYouMean(near.NearestType(name))
	}
	return ""
}

// Names returns the spellings that BTF may have for the type without its stars.
func (n TypeName) Names() []string {
	n.Stars = 0
	return n.spellings()
}

// spellings returns the names that BTF may have for a type, with stars. BTF names base
// types as the compiler does: "long unsigned int", not "unsigned long".
func (n TypeName) spellings() []string {
	names := []string{n.Name}
	if t, ok := baseType(n.Name); ok && t.TypeName() != "" && t.TypeName() != n.Name {
		names = append(names, t.TypeName())
	}
	for i := range names {
		if n.Stars > 0 {
			names[i] += " " + strings.Repeat("*", n.Stars)
		}
	}
	return names
}
