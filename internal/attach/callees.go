// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// callees returns what is known of the functions that a graph calls. It goes by address, since
// thunks have several names: of what lies where a thunk does, kallsyms may have an alias first.
func (r *codeReader) callees(g *code.Graph) (code.Callees, error) {
	all := map[uint64]bool{}
	for addr := range g.Callees() {
		all[addr] = true
	}
	addrs := slices.Sorted(maps.Keys(all))
	found, err := r.view.SelectAt(addrs)
	if err != nil {
		return nil, err
	}
	untraced, err := r.view.DescribeAt(slices.DeleteFunc(slices.Clone(addrs), func(a uint64) bool {
		return slices.ContainsFunc(found, func(f kernel.Function) bool { return f.Addr == a })
	}))
	if err != nil {
		return nil, err
	}
	if r.special == nil {
		r.special = specialCallees(r.view)
	}
	var out code.Callees
	for _, addr := range addrs {
		if c, ok := r.special[addr]; ok {
			out = append(out, c)
			continue
		}
		c := code.Callee{Addr: addr}
		for i := range found {
			if f := &found[i]; f.Addr == addr && (c.Name == "" || c.Result == code.Class{}) {
				addCallee(&c, f)
			}
		}
		for i := range untraced {
			if f := &untraced[i]; f.Addr == addr && f.Type != nil && c.Name == "" {
				addCallee(&c, f) // BTF says that it returns something, so C has it
				c.Kind = code.Strange
			}
		}
		if c.Name != "" {
			out = append(out, c)
		}
	}
	return out, nil
}

// addCallee sets what a function is that can be traced, and so is one that a compiler has made.
func addCallee(c *code.Callee, f *kernel.Function) {
	returns := btf.Type(nil)
	if f.Type != nil {
		proto, ok := f.Type.Type.(*btf.FuncProto)
		if !ok {
			return
		}
		returns = btf.UnderlyingType(proto.Return)
		if _, void := returns.(*btf.Void); void || returns == nil {
			return
		}
	}
	c.Name, c.Kind, c.Result = f.Name, code.Returning, plan.ClassOf(returns)
}

// Functions that never come back: tools/objtool/noreturns.h of Linux 6.12 has those that others
// than boot and shutdown call.
var finalFunctions = []string{"__stack_chk_fail", "panic", "nmi_panic_self_stop", "panic_smp_self_stop", "do_exit", "do_group_exit", "do_task_dead", "make_task_dead",
	"rewind_stack_and_make_dead", "__fortify_panic", "usercopy_abort", "kthread_exit", "kthread_complete_and_exit", "__module_put_and_kthread_exit",
	"__ubsan_handle_builtin_unreachable", "stop_this_cpu", "machine_real_restart"}

// returnThunks are what a return is on processors that predict returns badly. Which one is in use
// is in the code.
var returnThunks = []string{"__x86_return_thunk", "retbleed_return_thunk", "srso_return_thunk", "srso_alias_return_thunk", "call_depth_return_thunk", "its_return_thunk",
	"zen_return_thunk"}

// userReaders are functions in assembler that return 0 or -EFAULT where compiled functions do.
var userReaders = []string{"__get_user_1", "__get_user_2", "__get_user_4", "__get_user_8", "__get_user_nocheck_1", "__get_user_nocheck_2", "__get_user_nocheck_4",
	"__get_user_nocheck_8"}

// keepers are functions in assembler that keep all registers (arch/x86/entry/thunk.S), and trampolines that jump to them.
var keepers = []string{"preempt_schedule_thunk", "preempt_schedule_notrace_thunk", "__SCT__preempt_schedule", "__SCT__preempt_schedule_notrace"}

// specialCallees are the functions that are not what a compiler makes of one, by address.
func specialCallees(view *kernel.View) map[uint64]code.Callee {
	special := map[uint64]code.Callee{}
	add := func(name string, kind code.CalleeKind, class code.Class) {
		if s, ok := view.SymbolNamed(name, ""); ok {
			special[s.Addr] = code.Callee{Addr: s.Addr, Name: name, Kind: kind, Result: class}
		}
	}
	for _, name := range finalFunctions {
		add(name, code.Final, code.Class{})
	}
	if view.Arch() != "amd64" {
		return special
	}
	for _, name := range returnThunks {
		add(name, code.Return, code.Class{})
	}
	for _, name := range userReaders {
		add(name, code.Returning, code.Class{Size: 4, Signed: true})
	}
	for _, name := range keepers {
		add(name, code.Keeping, code.Class{})
	}
	for name := range code.Thunks() {
		register := strings.TrimPrefix(name, "__x86_indirect_thunk_")
		for _, kind := range [...]string{"thunk", "call_thunk", "jump_thunk", "its_thunk"} {
			add("__x86_indirect_"+kind+"_"+register, code.Through, code.Class{})
		}
	}
	return special
}
