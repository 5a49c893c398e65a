// SPDX-License-Identifier: Apache-2.0

package symbols

import "github.com/ksnoop/ksnoop/internal/debuginfo"

// A variabler tells which variables there are at an address. *DebugInfo implements it.
type variabler interface {
	Variables(addr uint64, module string) []debuginfo.Variable
}

var _ variabler = (*DebugInfo)(nil)

// Variables implements variabler.
func (d *DebugInfo) Variables(addr uint64, module string) []debuginfo.Variable {
	info := d.of(module)
	if info == nil {
		return nil
	}
	return info.Variables(addr)
}

// Variables returns the variables that exist at an address; none without debug info.
func (r *Resolver) Variables(addr uint64) []debuginfo.Variable {
	v, ok := r.source.(variabler)
	s, known := r.symbol(addr)
	if !ok || !known || r.level == LevelNone {
		return nil
	}
	return v.Variables(addr, s.Module)
}
