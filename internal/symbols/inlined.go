// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Inlined returns for each function where it was also inlined: a probe on the function does
// not see these calls. A function has none if debug info lacks it, or if its name does not
// tell which of several functions it is. params says whether to look up where the
// parameters are.
func (d *DebugInfo) Inlined(funcs []kernel.Function, params bool) [][]debuginfo.Inlining {
	places := make([][]debuginfo.Inlining, len(funcs))
	d.byModule(funcs, func(info *debuginfo.Info, indices []int, addrs []uint64) {
		for i, found := range info.Inlined(addrs, params) {
			places[indices[i]] = found
		}
	})
	return places
}

// InlinedNamed returns where functions with matching names were inlined, in a module or,
// for "", in vmlinux.
func (d *DebugInfo) InlinedNamed(module string, match func(name string) bool) []debuginfo.Inlining {
	info := d.of(module)
	if info == nil {
		return nil
	}
	return info.InlinedNamed(func(name []byte) bool { return match(string(name)) })
}

// Definitions returns for each function the file and line of its definition, empty if
// unknown.
func (d *DebugInfo) Definitions(funcs []kernel.Function) []Frame {
	frames := make([]Frame, len(funcs))
	d.byModule(funcs, func(info *debuginfo.Info, indices []int, addrs []uint64) {
		for i, addr := range addrs {
			file, line, _ := info.Definition(addr)
			frames[indices[i]] = Frame{Addr: addr, Name: funcs[indices[i]].Name, File: file, Line: int(line)}
		}
	})
	return frames
}

// Into returns the function that contains an inlined copy, and the source line of the call
// in it.
func (d *DebugInfo) Into(at debuginfo.Inlining, module string) Frame {
	f := Frame{Addr: at.Addr, Name: at.Into, Module: module, File: at.File, Line: int(at.Line), Column: int(at.Column)}
	if info := d.of(module); info != nil {
		if s, ok := info.SymbolAt(at.Addr); ok {
			f.Name, f.Offset = s.Name, at.Addr-s.Addr
		}
	}
	return f
}

// of returns the debug info of a module, or of vmlinux for ""; nil if there is none.
func (d *DebugInfo) of(module string) *debuginfo.Info {
	if module == "" {
		return d.vmlinux
	}
	return d.module(module)
}

// byModule calls yield for vmlinux and for each module with those functions whose addresses
// are known, and with the addresses.
func (d *DebugInfo) byModule(funcs []kernel.Function, yield func(info *debuginfo.Info, indices []int, addrs []uint64)) {
	modules := map[string][]int{}
	for i, f := range funcs {
		modules[f.Module] = append(modules[f.Module], i)
	}
	for module, indices := range modules {
		if info := d.of(module); info != nil {
			known, addrs := d.addresses(info, funcs, indices)
			yield(info, known, addrs)
		}
	}
}

// addresses returns the functions with known addresses, and the addresses.
func (d *DebugInfo) addresses(info *debuginfo.Info, funcs []kernel.Function, indices []int) (known []int, addrs []uint64) {
	names := map[string]bool{}
	asked := map[string]int{}
	for _, i := range indices {
		if f := &funcs[i]; !d.moved || f.Addr == 0 {
			names[f.Name] = true
			asked[f.Name]++
		}
	}
	symbols := info.FunctionsNamed(names)
	for _, i := range indices {
		f := &funcs[i]
		all := symbols[f.Name]
		switch {
		case d.moved && f.Addr != 0:
			known, addrs = append(known, i), append(addrs, f.Addr)
		case len(all) > 0 && len(all) == asked[f.Name]:
			// As many symbols as functions have the name: they pair up in the order of addresses.
			known, addrs = append(known, i), append(addrs, all[0].Addr)
			symbols[f.Name], asked[f.Name] = all[1:], asked[f.Name]-1
		}
	}
	return known, addrs
}
