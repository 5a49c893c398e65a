// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// Scope returns what expressions are checked against: a function of the
// generator's parameters, and its types.
func (g *Gen) Scope(result btf.Type) *expr.Scope {
	s := &expr.Scope{Func: "f", Return: result, Types: types{g}}
	for _, p := range g.Params {
		s.Params = append(s.Params, expr.Param{Name: p.Name, Type: p.Type})
	}
	return s
}

type types struct{ g *Gen }

var _ expr.Types = types{}

// TypesByName is part of expr.Types.
func (t types) TypesByName(spelling string) ([]btf.Type, error) {
	if name, ok := strings.CutPrefix(spelling, "struct "); ok {
		for _, s := range t.g.Structs {
			if s.Name == name {
				return []btf.Type{s}, nil
			}
		}
	}
	for size := uint32(1); size <= 8; size *= 2 {
		for _, sign := range []string{"s", "u"} {
			if spelling == sign+map[uint32]string{1: "8", 2: "16", 4: "32", 8: "64"}[size] {
				enc := btf.IntEncoding(0)
				if sign == "s" {
					enc = btf.Signed
				}
				return []btf.Type{&btf.Typedef{Name: spelling, Type: integer(spelling, size, enc)}}, nil
			}
		}
	}
	return nil, nil
}

// Enumerators is part of expr.Types.
func (t types) Enumerators(name string) ([]expr.Enumerator, error) {
	var found []expr.Enumerator
	for _, e := range t.g.enums {
		for _, v := range e.Values {
			if v.Name == name {
				found = append(found, expr.Enumerator{Enum: e, Value: v.Value})
			}
		}
	}
	return found, nil
}
