// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// ReadWays returns the plan with the code of the functions whose ways are wanted, as it is in
// the memory of the running kernel. It returns a plan that has all as it is.
func ReadWays(p *plan.Plan, view *kernel.View) (*plan.Plan, error) {
	if !slices.ContainsFunc(p.Probes, wayless) {
		return p, nil
	}
	p, err := p.Located(view)
	if err != nil {
		return nil, err
	}
	m, err := openKcore()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := codeReader{view: view, memory: m}
	return p.WithWays(func(probe *plan.Probe) (*plan.Way, error) {
		if !wayless(probe) {
			return nil, nil
		}
		return r.way(&probe.Func)
	})
}

// ReadWay returns the way through one function, which need not be one that can be probed.
func ReadWay(f kernel.Function, view *kernel.View) (*plan.Way, error) {
	m, err := openKcore()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := codeReader{view: view, memory: m}
	return r.way(&f)
}

func (r *codeReader) way(f *kernel.Function) (*plan.Way, error) {
	text, err := r.function(f)
	if err != nil {
		return nil, err
	}
	w, err := plan.NewWay(text, nil)
	if err != nil {
		return nil, err
	}
	w.Syscall = r.view.SyscallParams(f.Name, r.view.Arch())
	w.Callees, err = r.callees(w.Graph())
	return w, err
}

// wayless reports whether the way of a probe is wanted and not known.
func wayless(p *plan.Probe) bool { return p.Path() && p.Way == nil }

// A codeReader reads functions.
type codeReader struct {
	view   *kernel.View
	memory memory
	faults []code.Fault // of all of vmlinux
	read   bool         // they were read
	// special are the functions that are not what a compiler makes of one, by address.
	special map[uint64]code.Callee
}

// function reads a function, and the part of it that the compiler has moved away.
func (r *codeReader) function(f *kernel.Function) (code.Function, error) {
	out := code.Function{Arch: r.view.Arch()}
	s, ok := r.view.Symbol(f.Addr)
	if f.Addr == 0 || !ok || s.Offset != 0 {
		return out, errors.New("the kernel does not tell its address")
	}
	if err := r.part(&out, s); err != nil {
		return out, err
	}
	if err := r.addFaults(&out, f); err != nil {
		return out, err
	}
	// What the compiler moved away is found by the jumps that lead to it.
	g, err := code.NewGraph(&out)
	if err != nil {
		return out, err
	}
	for addr := range g.Outside() {
		s, ok := r.view.Symbol(addr)
		switch {
		case ok && isCold(s.Name, f.Name) && s.Module == f.Module:
			s.Addr, s.Offset = addr-s.Offset, 0
			if !slices.ContainsFunc(out.Parts, func(p code.Part) bool { return p.Addr == s.Addr }) {
				if err := r.part(&out, s); err != nil {
					return out, err
				}
			}
		case !ok || s.Offset != 0:
			out.Strange = append(out.Strange, addr)
		}
	}
	return out, r.addFaults(&out, f)
}

// isCold reports whether a symbol is of the part of a function that is rarely executed.
func isCold(name, function string) bool {
	rest, ok := strings.CutPrefix(name, function+".cold")
	return ok && (rest == "" || rest[0] == '.')
}

// part adds the code of a symbol.
func (r *codeReader) part(f *code.Function, s kernel.Symbol) error {
	text, err := (&Text{r.memory}).Read(s)
	if err != nil {
		return fmt.Errorf("reading its code: %w", err)
	}
	f.Parts = append(f.Parts, code.Part{Addr: s.Addr, Bytes: text})
	return nil
}

// addFaults sets where instructions of a function go on if they fault. The table of vmlinux is
// read once; those of modules are not known by a symbol.
func (r *codeReader) addFaults(f *code.Function, of *kernel.Function) (err error) {
	if of.Module != "" {
		return nil
	}
	if !r.read {
		r.read = true
		if r.faults, err = r.readFaults(); err != nil {
			return fmt.Errorf("reading where faults lead to: %w", err)
		}
	}
	f.Faults = f.Faults[:0]
	for _, x := range r.faults {
		if slices.ContainsFunc(f.Parts, func(p code.Part) bool { return x.From-p.Addr < uint64(len(p.Bytes)) }) {
			f.Faults = append(f.Faults, x)
		}
	}
	return nil
}

// faultSize is the size of struct exception_table_entry: where the instruction is and where to
// go on, as seen from these fields, and what to do.
const faultSize = 12

func (r *codeReader) readFaults() (faults []code.Fault, err error) {
	first, ok := r.view.SymbolNamed("__start___ex_table", "")
	end, too := r.view.SymbolNamed("__stop___ex_table", "")
	if !ok || !too || end.Addr < first.Addr || end.Addr-first.Addr > 16<<20 {
		return nil, errors.New("the kernel does not tell where its table is")
	}
	table := make([]byte, end.Addr-first.Addr)
	if err := r.memory.read(table, first.Addr); err != nil {
		return nil, err
	}
	for at := 0; at+faultSize <= len(table); at += faultSize {
		relative := func(field int) uint64 {
			here := first.Addr + uint64(at+field)
			return here + uint64(int64(int32(binary.LittleEndian.Uint32(table[at+field:]))))
		}
		faults = append(faults, code.Fault{From: relative(0), To: relative(4)})
	}
	return faults, nil
}
