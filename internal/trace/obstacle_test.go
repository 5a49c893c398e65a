// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestSwitchedOff: what is switched off is said if some probe takes it, and only then.
func TestSwitchedOff(t *testing.T) {
	const ftrace, kprobes = "proc/sys/kernel/ftrace_enabled", "sys/kernel/debug/kprobes/enabled"
	call := plan.Hook{Kind: expr.Function}
	instruction := func(offset uint64) plan.Hook { return plan.Hook{Kind: expr.Instruction, Offset: offset} }
	for _, c := range []struct {
		off, arch string
		method    layout.Method
		hook      plan.Hook
		program   bool
		refused   bool
	}{
		{ftrace, "amd64", layout.MethodFentry, call, false, true},
		{ftrace, "arm64", layout.MethodTracingMulti, call, false, true},
		{ftrace, "amd64", layout.MethodKprobeSession, call, false, true},
		{ftrace, "amd64", layout.MethodFentry, call, true, false}, // a BPF program
		{ftrace, "amd64", layout.MethodKprobe, call, false, true},
		{ftrace, "arm64", layout.MethodKprobe, call, false, false},
		{ftrace, "amd64", layout.MethodTracepoint, plan.Hook{Kind: expr.Tracepoint}, false, false},
		{kprobes, "amd64", layout.MethodKprobe, call, false, true},
		{kprobes, "arm64", layout.MethodKprobe, call, false, true},
		{kprobes, "amd64", layout.MethodFentry, call, false, false},
		{ftrace, "amd64", layout.MethodKprobe, instruction(0), false, true},
		{ftrace, "amd64", layout.MethodKprobe, instruction(4), false, true}, // after endbr64
		{ftrace, "amd64", layout.MethodKprobe, instruction(9), false, false},
		{ftrace, "arm64", layout.MethodKprobe, instruction(0), false, false},
		{kprobes, "amd64", layout.MethodKprobe, instruction(9), false, true},
		{"", "amd64", layout.MethodKprobe, call, false, false},
	} {
		files := fstest.MapFS{ftrace: {Data: []byte("1\n")}, kprobes: {Data: []byte("1\n")}}
		if c.off != "" {
			files[c.off] = &fstest.MapFile{Data: []byte("0\n")}
		}
		files["proc/sys/kernel/arch"] = &fstest.MapFile{Data: []byte(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[c.arch])}
		view := kernel.Open(files)
		p := &plan.Plan{Probes: []*plan.Probe{{Probe: layout.Probe{Kind: c.hook.Kind, Method: c.method, InProgram: c.program}, Hook: c.hook}}}
		off := switchedOff(view, p)
		if (len(off) == 1) != c.refused || c.refused && !strings.Contains(off[0].Why, "/"+c.off) && !strings.Contains(off[0].Why, "ftrace_enabled is 0") {
			t.Errorf("%+v: %v", c, off)
		}
	}
	// A kretprobe that sessions inject is hit by ftrace, too; both may be off.
	view := kernel.Open(fstest.MapFS{ftrace: {Data: []byte("0\n")}, kprobes: {Data: []byte("0\n")}, "proc/sys/kernel/arch": {Data: []byte("x86_64\n")}})
	injected := &plan.Probe{Probe: layout.Probe{Method: layout.MethodKprobe, Role: layout.RoleInjectedReturn}, Hook: call}
	if off := switchedOff(view, &plan.Plan{Probes: []*plan.Probe{injected}}); len(off) != 2 {
		t.Errorf("both are off: %v", off)
	}
}
