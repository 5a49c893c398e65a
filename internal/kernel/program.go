// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/progs"
)

// Why a BPF program cannot be traced.
var (
	errProgramUntyped     = errors.New("it was loaded without BTF, by which the kernel would find it")
	errProgramInterpreted = errors.New("it is interpreted, and the kernel only attaches to machine code (sysctl net.core.bpf_jit_enable)")
	errProgramOurs        = errors.New("it is one of ksnoop's own")
	errProgramDissects    = errors.New("what it is called with is not what its types say (flow dissector)")
	errProgramUnclear     = errors.New("the kernel tells of none of its functions")
)

// progFlowDissector is BPF_PROG_TYPE_FLOW_DISSECTOR. Such a program takes a struct __sk_buff, which
// is a struct sk_buff for all others, and bpf_flow_dissector for these.
const progFlowDissector = 22

// untraceable returns why a program cannot be traced, or nil.
func untraceable(p *progs.Program) error {
	switch {
	case p.Ksnoop():
		return errProgramOurs
	case p.BTF == 0:
		return errProgramUntyped
	case !p.Jited:
		return errProgramInterpreted
	case p.Type == progFlowDissector:
		return errProgramDissects
	case len(p.Functions) == 0:
		return errProgramUnclear
	}
	return nil
}

// Programs returns the functions of all loaded BPF programs, and the programs whose functions cannot
// be traced. The list is read once.
func (v *View) Programs() ([]Function, []UntraceableProgram, error) {
	found, err := v.programs()
	if err != nil {
		return nil, nil, err
	}
	return slices.Clone(found.functions), found.untraceable, nil
}

// readPrograms lists the programs of the running kernel.
func (v *View) readPrograms() (*programList, error) {
	if _, running := v.root.(programRoot); !running {
		return nil, errors.New("only the running kernel tells which BPF programs it has loaded")
	}
	all, err := progs.List()
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("only root may list BPF programs (CAP_SYS_ADMIN): %w", err)
	}
	if err != nil {
		return nil, err
	}
	list := &programList{}
	for i := range all {
		p := &all[i]
		err := untraceable(p)
		if err == nil {
			err = v.addProgram(list, p)
		}
		if err != nil {
			name := cmp.Or(p.Name, "#"+strconv.FormatUint(uint64(p.ID), 10))
			list.untraceable = append(list.untraceable, UntraceableProgram{LoadedProgram{p.ID, name}, "", err})
		}
	}
	slices.SortStableFunc(list.functions, compare)
	return list, nil
}

// cutOf returns what is missing of a function's signature, as far as the program's instructions tell.
// Functions that are not static are called by what they declare.
func cutOf(f *progs.Function, fn *btf.Func) (cut Cut) {
	proto, ok := fn.Type.(*btf.FuncProto)
	if !ok || !f.Known || fn.Linkage != btf.StaticFunc {
		return cut
	}
	words := 0
	for _, p := range proto.Params {
		size, err := btf.Sizeof(p.Type)
		if err != nil || size > 16 {
			return cut
		}
		words += (size + 7) / 8
	}
	if f.Most < words {
		cut.Params, cut.Passed = true, f.Most
	}
	if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); !void {
		cut.Result = f.Unused
	}
	return cut
}

// addProgram adds the functions of a program. Its types become known as those of a module.
func (v *View) addProgram(l *programList, p *progs.Program) error {
	types, err := progs.Types(p.ID)
	if err != nil {
		return err
	}
	return v.addTyped(l, p, types)
}

// addTyped is addProgram with the types of the program. Whoever has loaded it may have fewer privileges than we have.
func (v *View) addTyped(l *programList, p *progs.Program, types []byte) error {
	info, err := foreignTypes("", types, nil)
	if err != nil {
		return err
	}
	var found []Function
	for i := range p.Functions {
		f := &p.Functions[i]
		t, err := info.byID(f.Type)
		if err != nil {
			return err
		}
		fn, ok := t.(*btf.Func)
		if !ok {
			return errProgramUnclear
		}
		found = append(found, Function{Name: fn.Name, Addr: f.Addr, Type: fn, Cut: cutOf(f, fn)})
	}
	info.name = LoadedProgram{p.ID, found[0].Name}.Module()
	for i := range found {
		found[i].Module = info.name
	}
	v.mu.Lock()
	v.module[info.name] = func() (*typeInfo, error) { return info, nil }
	v.mu.Unlock()
	for i := range found {
		// If a program stands in the place of the program's own function, nothing calls the others.
		if by := cmp.Or(p.Functions[0].Extension, p.Functions[i].Extension); by != 0 {
			l.untraceable = append(l.untraceable, UntraceableProgram{LoadedProgram{p.ID, found[0].Name}, found[i].Name, replacedError(by)})
		} else {
			l.functions = append(l.functions, found[i])
		}
	}
	return nil
}

// A replacedError says that a function is never called, since a program stands in its place: the one with this ID.
type replacedError uint32

func (e replacedError) Error() string {
	return fmt.Sprintf("BPF program %d is called in its place (freplace): 'bpf:*[%d]' traces that", uint32(e), uint32(e))
}
