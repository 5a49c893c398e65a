// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// kernelTypes looks up types in the function's own module first.
type kernelTypes struct {
	view   *kernel.View
	module string
}

var (
	_ expr.Types  = kernelTypes{}
	_ expr.Macros = kernelTypes{}
)

func (k kernelTypes) TypesByName(spelling string) ([]btf.Type, error) {
	return k.view.TypesByName(spelling, k.module)
}

func (k kernelTypes) Enumerators(name string) ([]expr.Enumerator, error) {
	found, err := k.view.Enumerators(name, k.module)
	out := make([]expr.Enumerator, 0, len(found))
	for _, e := range found {
		for _, v := range e.Values {
			if v.Name == name {
				out = append(out, expr.Enumerator{Enum: e, Value: v.Value})
			}
		}
	}
	return out, err
}

func (k kernelTypes) Macros(name string) ([]expr.Macro, error) {
	found, err := k.view.Macros(name, func(text string) (int64, bool) {
		return expr.ConstantOf(text, kernelTypes{k.view, ""}) // enumerators of whichever module asks first
	})
	macros := make([]expr.Macro, len(found))
	for i, m := range found {
		macros[i] = expr.Macro{Value: m.Value, Where: expr.Tracepoint.String() + ":" + m.Event}
	}
	return macros, err
}

func (k kernelTypes) MacroNames() []string { return k.view.MacroNames() }

// NearestType returns the spelling of the type that was meant by an unknown one, or "".
func (k kernelTypes) NearestType(spelling string) string {
	return k.view.NearestType(spelling, k.module)
}
