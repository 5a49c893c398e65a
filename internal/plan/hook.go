// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// A Hook says what a probe is on if it is not simply a function. The zero value means a
// function.
type Hook struct {
	Kind   expr.Kind
	System string `json:",omitempty"` // of a tracepoint: its group
	Name   string `json:",omitempty"`
	Offset uint64 `json:",omitempty"` // of an instruction: bytes from the start of the function
	// File is the program or library of a function of user space, Place where in it the
	// instruction is. Go says that the function takes arguments as those of Go do.
	File  string `json:",omitempty"`
	Place uint64 `json:",omitempty"`
	Go    bool   `json:",omitempty"`
	// Identity is that of File. A recording does not have it.
	Identity userfunc.Identity `json:"-"`
	// Semaphore and Args are those of a USDT probe, whose provider is System.
	Semaphore uint64         `json:",omitempty"`
	Args      []userfunc.Arg `json:",omitempty"`
	// Fields are the fields of a tracepoint, or the parameters of a system call; nil if
	// unknown.
	Fields []kernel.Field `json:",omitempty"`
	// Inlined says that the instruction is the start of an inlined copy of function Name in
	// Func.
	Inlined bool              `json:",omitempty"`
	Params  []debuginfo.Param `json:",omitempty"` // of the inlined function
}

// check rejects a hook that no SPEC can lead to. A recording may contain one.
func (h *Hook) check(f kernel.Function) error {
	if !h.Kind.Known() {
		return fmt.Errorf("%s: no kind of target has the number %d", f, h.Kind)
	}
	if proto := protoOf(f); h.Kind == expr.RawTracepoint && (proto == nil || len(proto.Params) == 0) {
		return fmt.Errorf("%s: its types do not say what rawtp:%s is called with", f, h.Name)
	}
	return nil
}

// label returns the selector that a SPEC would use for the hook.
func (h *Hook) label() string { return h.labelOf(nil) }

// labelOf is label as this SPEC has it. SPECs of a function of user space share a hook whether they are
// about its calls or about its returns alone.
func (h *Hook) labelOf(spec *expr.Spec) string {
	sel := expr.Selector{Kind: h.Kind, System: h.System, File: h.File, Name: h.Name, Offset: h.Offset}
	sel.Return = spec != nil && spec.Selector.Return && h.Kind == expr.UserFunction
	return sel.String()
}

// A candidate is something that a selector matched.
type candidate struct {
	f kernel.Function
	Hook
	bad error // why it cannot be traced; nil if it may be
	// linked is the address of a function of user space, as its file was linked.
	linked uint64
}

// renamed are prefixes and suffixes that distinguish the kernel's newer versions of system
// calls from the C library's names.
var renamed = []string{"", "new", "64"}

// syscalls returns the system calls that match a name or glob. A name of the C library
// may have another name in the kernel: see renamed.
func syscalls(view *kernel.View, name, arch string) (found []candidate, err error) {
	for _, affix := range renamed {
		wanted := affix + name
		if affix == "64" {
			wanted = name + affix
		}
		calls, err := view.Syscalls(wanted, arch)
		for _, c := range calls {
			found = append(found, candidate{f: c.Func, Hook: Hook{Kind: expr.Syscall, Name: c.Name, Fields: c.Params}})
		}
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return found, nil
}

// tracepoints returns the tracepoints that match two globs.
func tracepoints(view *kernel.View, system, name string) (found []candidate, err error) {
	points, err := view.Tracepoints(system, name)
	for _, p := range points {
		found = append(found, candidate{f: kernel.Function{Name: p.Name}, Hook: Hook{Kind: expr.Tracepoint, System: p.System, Name: p.Name, Fields: p.Fields}})
	}
	return found, err
}

// rawTracepoints returns the raw tracepoints that match a glob.
func rawTracepoints(view *kernel.View, name string) (found []candidate, err error) {
	points, err := view.RawTracepoints(name)
	for _, p := range points {
		found = append(found, candidate{f: p, Hook: Hook{Kind: expr.RawTracepoint, Name: p.Name}})
	}
	return found, err
}
