// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Declarations writes the generator's types in C, with assertions that the
// compiler lays them out as they were here.
func (g *Gen) Declarations() string {
	var b strings.Builder
	for _, e := range g.enums {
		fmt.Fprintf(&b, "enum %s {", e.Name)
		for _, v := range e.Values {
			fmt.Fprintf(&b, " %s = %d,", v.Name, int64(v.Value))
		}
		b.WriteString(" };\n")
	}
	for _, s := range g.Structs {
		fmt.Fprintf(&b, "struct %s {\n", s.Name)
		writeMembers(&b, s.Members)
		b.WriteString("}")
		if g.packed[s] {
			b.WriteString(" __attribute__((packed))")
		}
		fmt.Fprintf(&b, ";\n_Static_assert(sizeof(struct %s) == %d, \"size\");\n", s.Name, s.Size)
		for _, m := range s.Members {
			if m.Name != "" && m.BitfieldSize == 0 {
				fmt.Fprintf(&b, "_Static_assert(__builtin_offsetof(struct %s, %s) == %d, \"offset\");\n", s.Name, m.Name, m.Offset/8)
			}
		}
	}
	return b.String()
}

func writeMembers(b *strings.Builder, ms []btf.Member) {
	for _, m := range ms {
		switch t := m.Type.(type) {
		case *btf.Struct:
			if t.Name == "" {
				b.WriteString("struct {\n")
				writeMembers(b, t.Members)
				fmt.Fprintf(b, "} %s;\n", m.Name)
				continue
			}
		case *btf.Union:
			b.WriteString("union {\n")
			writeMembers(b, t.Members)
			fmt.Fprintf(b, "} %s;\n", m.Name)
			continue
		}
		b.WriteString(CDeclaration(m.Type, m.Name))
		if m.BitfieldSize != 0 {
			fmt.Fprintf(b, " : %d", m.BitfieldSize)
		}
		b.WriteString(";\n")
	}
}

// CDeclaration declares name with one of the types that are made for C.
func CDeclaration(t btf.Type, name string) string {
	switch t := t.(type) {
	case *btf.Array:
		return CDeclaration(t.Type, fmt.Sprintf("%s[%d]", name, t.Nelems))
	case *btf.Pointer:
		return CDeclaration(t.Target, "*"+name)
	case *btf.Struct:
		return "struct " + t.Name + " " + name
	case *btf.Enum:
		return "enum " + t.Name + " " + name
	}
	return t.TypeName() + " " + name
}

// CParameters makes a parameter of every integer and enum type and some
// pointers to structs.
func (g *Gen) CParameters(pointers int) []btf.FuncParam {
	var ps []btf.FuncParam
	add := func(t btf.Type) { ps = append(ps, btf.FuncParam{Name: fmt.Sprintf("p%d", len(ps)), Type: t}) }
	for _, t := range ints {
		add(t)
	}
	for _, e := range g.enums {
		add(e)
	}
	for range pointers {
		add(&btf.Pointer{Target: pick(g, g.Structs)})
	}
	return ps
}
