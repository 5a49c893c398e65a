// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

var errNoSourceFiles = errors.New("a recording does not tell which source file defines a function")

// Selecting returns a test of whether a selector selects what a recorded probe is on. It asks
// for no symbols: those of a recording may be few.
func Selecting(view *kernel.View, sel expr.Selector) (func(*Probe) bool, error) {
	if sel.Path != "" {
		return nil, errNoSourceFiles
	}
	having, err := having(view, sel)
	if err != nil {
		return nil, err
	}
	return func(p *Probe) bool { return selects(sel, p) && having(p.Func) }, nil
}

// selects does all of that but the types.
func selects(sel expr.Selector, p *Probe) bool {
	h, name := &p.Hook, p.Func.Name
	kind := h.Kind
	if h.Inlined { // copies go by the name of their function
		kind, name = expr.Function, h.Name
	}
	if p.Func.InProgram("") {
		return selectsOf(sel, p.Func)
	}
	switch {
	case kind != sel.Kind, sel.Module != "" && (p.Func.Module == "" || !glob.Match(sel.Module, p.Func.Module)):
		return false
	case kind == expr.Syscall:
		return slices.ContainsFunc(renamed, func(affix string) bool {
			return glob.Match(affix+sel.Name, h.Name) || glob.Match(sel.Name+affix, h.Name)
		})
	case kind == expr.Tracepoint:
		return glob.Match(sel.System, h.System) && glob.Match(sel.Name, h.Name)
	case kind == expr.RawTracepoint:
		return glob.Match(sel.Name, h.Name)
	case kind == expr.UserFunction, kind == expr.StaticProbe:
		return h.matchesUser(sel)
	case kind == expr.Instruction && sel.Offset != h.Offset:
		return false
	}
	return glob.Match(sel.Name, name)
}
