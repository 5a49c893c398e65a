// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// TestTold: a program tells the ends of a call apart by the result where calls that return 0
// are dropped, and where nothing that lasts is done at entry but to keep values. Of `long
// f(struct file *file, long n)`.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		spec string
		told bool
		with func(*Options)
	}{
		{spec: "f(file->flags, return < 0)", told: true},
		{spec: "f(file->flags, return == -5 || return > 4096)", told: true},
		{spec: "f(n == 1, return == 2)"},                // needs no entry program
		{spec: "f(file->flags, return <= 0)"},           // 0 is wanted
		{spec: "f(file->flags, return)"},                // the same
		{spec: "f(file->flags, return != file->flags)"}, // only what is kept decides
		{spec: "f(file->flags, n != 0 || return < 0)"},  // the same
		{spec: "f(file->flags == 1, return < 0)"},       // counts a fault of the predicate
		{spec: "f(n / 2 == 1, return < 0)"},             // a fault as well, if it were not 2
		{spec: "f(user(file)->flags, return < 0)"},      // takes a helper
		{spec: "f(file->pos, return < 0)"},              // no room in the cookie
		{spec: "f($duration > 1, return)", told: true},
		{spec: "f($duration > 1, return < 0)", told: true},
		{spec: "f(n == 1, $duration > 1)"}, // no room beside the time
		{spec: "f(return < 0, $duration)", told: true},
		{spec: "f(hist($duration))", told: true}, // adds up by itself
		{spec: "f(return < 0, sum($duration))", told: true},
		{spec: "f(hist($duration), $duration > 9, count())", told: true},
		{spec: "f(hist($duration)[return])"},                                               // calls the engine for new keys
		{spec: "f(max($duration))"},                                                        // calls the engine
		{spec: "f(sum($duration / return))"},                                               // counts a fault
		{spec: "f(hist($duration), file->flags == 1)"},                                     // no room beside the time
		{spec: "f(hist($duration), $cgroup == 1)"},                                         // takes a helper
		{spec: "f(n, return < 0)", told: false},                                            // 64 bits
		{spec: "f(file->flags, return < 0)", with: func(t *Options) { t.Filtered = true }}, // takes a helper
		{spec: "f(file->flags, return < 0)", with: func(t *Options) { t.Branches = true }}, // no jump before the snapshot
	} {
		target := ofKernel(false)
		target.Guard = bpf.NewGuard(0)
		if c.with != nil {
			c.with(&target)
		}
		programs := compiled(t, c.spec, layout.MethodFsession, target)
		if told := programs.Either != nil && !programs.Joined; told != c.told {
			t.Errorf("%s: told %t, want %t", c.spec, told, c.told)
		}
		if c.told && !t.Failed() {
			checkTold(t, c.spec, programs)
		}
	}
}

// checkTold: what such a program itself calls of the kernel is for the cookie, the clock and the CPU's
// number only, and its entry program, which it may call at a return, begins with the question which end that is.
func checkTold(t *testing.T, spec string, programs Programs) {
	t.Helper()
	var own []string
	for _, half := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
		if len(half) > 0 {
			own = append(own, half[0].Name)
		}
	}
	for _, ins := range programs.Either.Insns {
		if ins.IsBuiltinCall() && !leaf[asm.BuiltinFunc(ins.Constant)] || ins.IsKfuncCall() && ins.Constant != 102 || ins.IsFunctionCall() && !slices.Contains(own, ins.Reference()) {
			t.Errorf("%s: calls %v", spec, ins)
		}
	}
	if len(programs.Entry) > 0 {
		entry := programs.Entry[0].Insns
		first := slices.IndexFunc(entry, func(ins asm.Instruction) bool { return ins.OpCode.Class().IsJump() })
		if first < 0 || !entry[first].IsKfuncCall() || entry[first].Constant != 101 {
			t.Errorf("%s: does not ask first which end it is:\n%v", spec, entry)
		}
	}
	if l, err := programs.Link(); err != nil || l.Both == nil {
		t.Errorf("%s: linked: %v", spec, err)
	}
}
