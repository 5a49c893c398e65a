// SPDX-License-Identifier: Apache-2.0

package symbols

import "github.com/ksnoop/ksnoop/internal/debuginfo"

// A liner tells which source lines code comes from. *DebugInfo implements it.
type liner interface {
	Rows(dst []debuginfo.Row, lo, hi uint64, module string) []debuginfo.Row
}

var _ liner = (*DebugInfo)(nil)

// Rows implements liner.
func (d *DebugInfo) Rows(dst []debuginfo.Row, lo, hi uint64, module string) []debuginfo.Row {
	info := d.of(module)
	if info == nil {
		return dst
	}
	return info.Rows(dst, lo, hi)
}

// Lines appends the source lines of the function at addr. It appends none without debug
// info, or if lines are not wanted.
func (r *Resolver) Lines(dst []debuginfo.Row, addr uint64) []debuginfo.Row {
	l, ok := r.source.(liner)
	if !ok || r.level == LevelNone {
		return dst
	}
	s, ok := r.symbol(addr)
	if !ok {
		return dst
	}
	return l.Rows(dst, s.Addr, s.Addr+s.Size, s.Module)
}
