// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// tracingTypes are the attach types of programs for many functions.
var tracingTypes = map[end]ebpf.AttachType{atEntry: attachFentryMulti, atReturn: attachFexitMulti, atBoth: attachFsessionMulti}

// oneFunction are those of programs for one.
var oneFunction = map[end]ebpf.AttachType{atEntry: ebpf.AttachTraceFEntry, atReturn: ebpf.AttachTraceFExit, atBoth: attachFsession}

// loadTracing loads a program of such a type, for the function of p, or by tracing_multi for all of the same BTF object.
func (t *Tracer) loadTracing(p *plan.Probe, insns asm.Instructions, e end) (program, error) {
	spec := tracingProgram{name: insns.Name(), insns: insns, as: oneFunction[e]}
	var err error
	if spec.of, err = t.object(p.Func); err != nil {
		return nil, err
	}
	if p.Method == layout.MethodTracingMulti {
		spec.as = tracingTypes[e]
	} else if spec.function, err = t.functionID(p); err != nil {
		return nil, err
	}
	prog, err := t.host.loadTracing(&spec, t.types)
	if err != nil {
		return nil, explain(err)
	}
	return prog, nil
}

// hookTracing hooks a program at many functions of one BTF object by one link,
// whose cookies tell the program which probe it runs for. As with kprobe.multi the
// kernel refuses the whole link for the sake of one function. Those that Linux is
// known to refuse are tried by themselves: to find one among all of the kernel
// takes long.
func (t *Tracer) hookTracing(prog program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	ids := make(map[*plan.Probe]btf.TypeID, len(probes))
	var usual, suspect []*plan.Probe
	for _, p := range probes {
		id, err := t.functionID(p)
		switch {
		case err != nil:
			failed = append(failed, Failure{p, err})
			continue
		case slices.Contains(oftenRefused, p.Func.Name):
			suspect = append(suspect, p)
		default:
			usual = append(usual, p)
		}
		ids[p] = id
	}
	for _, part := range [][]*plan.Probe{usual, suspect} {
		links, refused := halving(part, e, func(probes []*plan.Probe) (closer, error) {
			if t.hurried() {
				return nil, ErrInterrupted
			}
			functions, cookies := make([]btf.TypeID, len(probes)), make([]uint64, len(probes))
			for i, p := range probes {
				functions[i], cookies[i] = ids[p], codegen.Cookie(&p.Probe)
			}
			return prog.tracingMulti(tracingTypes[e], functions, cookies)
		})
		made, failed = append(made, links...), append(failed, refused...)
	}
	return made, failed
}

// oftenRefused are functions that no link could have in Linux 7.3: they do not
// return, or programs on trampolines call them (noreturn_deny and btf_id_deny in
// kernel/bpf/verifier.c). The list need not be right: it saves time.
var oftenRefused = []string{
	"__ia32_sys_exit", "__ia32_sys_exit_group", "__kunit_abort", "kunit_try_catch_throw", "__module_put_and_kthread_exit",
	"__x64_sys_exit", "__x64_sys_exit_group", "do_exit", "do_group_exit", "kthread_complete_and_exit", "kthread_exit", "make_task_dead",
	"___migrate_enable", "migrate_disable", "migrate_enable", "rcu_read_unlock_strict", "preempt_count_add", "preempt_count_sub",
	"__rcu_read_lock", "__rcu_read_unlock",
}

// functionID returns the BTF id of a probe's function in its BTF object.
func (t *Tracer) functionID(p *plan.Probe) (btf.TypeID, error) {
	types, err := t.options.Kernel.ModuleBTF(p.Func.Module)
	if err != nil {
		return 0, fmt.Errorf("reading the types of %s: %w", p.Name, err)
	}
	id, err := types.TypeID(p.Func.Type)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoType, err)
	}
	return id, nil
}

// object returns what the kernel finds a function in: a module or a BPF program; nil for vmlinux.
// It is closed with t.
func (t *Tracer) object(f kernel.Function) (object, error) {
	name := f.Module
	if name == "" || t.objects[name] != nil {
		return t.objects[name], nil
	}
	var o object
	var err error
	if p, ok := f.Program(); ok {
		o, err = t.host.loadedProgram(ebpf.ProgramID(p.ID))
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("BPF program %s is no longer loaded", p.Name)
		}
	} else if o, err = t.host.moduleTypes(name); err != nil {
		err = fmt.Errorf("finding the types of module %s: %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	if t.objects == nil {
		t.objects = map[string]object{}
	}
	t.objects[name] = o
	return o, nil
}
