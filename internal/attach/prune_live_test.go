// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// TestLivePruned: of a pruned program and of the whole one the verifier makes the same, but for jumps of which it does not
// see that they are always taken, or never.
func TestLivePruned(t *testing.T) {
	guest.Require(t)
	view := kernel.Open(os.DirFS("/"))
	parse := func(text string) *expr.Spec {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	o := plan.Options{Arch: view.Arch(), Method: func(*plan.Probe) layout.Method { return layout.MethodKprobe }}
	options := Options{Settings: bpf.Settings{RingSize: 4096}, Code: codegen.Options{Arch: view.Arch()}, Kernel: view, LoadOnly: true, Log: slog.New(slog.DiscardHandler)}
	calls, _, err := plan.Resolve(view, []*expr.Spec{parse("vfs_read(*file, ustr(buf), return > 3)"), parse("vfs_write(count()[$comm], hist($duration))")}, o)
	if err != nil {
		t.Fatal(err)
	}
	sessions, _, err := plan.ResolveSession(view, plan.SessionRequest{Entry: []*expr.Spec{parse("do_sys_openat2")}, Args: true, Specs: []*expr.Spec{parse("vfs_open(path)")}}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		plan     *plan.Plan
		settings bpf.SessionSettings
		filter   bpf.Filter
	}{
		{name: "calls", plan: calls},
		{name: "calls of a process", plan: calls, filter: bpf.Filter{PIDs: []uint32{1}, Comms: []string{"a*"}, Family: true}},
		{name: "sessions", plan: sessions, settings: bpf.SessionSettings{Count: 4}},
		{name: "traced sessions", plan: sessions, settings: bpf.SessionSettings{Count: 4, Traced: true, Success: true}},
	} {
		o := options
		o.Settings.Filter = c.filter
		if c.settings.Count > 0 {
			if o, err = SessionOptions(c.plan, o, c.settings); err != nil {
				t.Fatal(err)
			}
		}
		tracer, err := Attach(c.plan, o)
		if err != nil {
			t.Fatal(err)
		}
		defer tracer.Close()
		constants := tracer.constants
		for _, p := range tracer.plan.Probes {
			programs, err := codegen.Compile(&p.Probe, tracer.options.Code)
			if err != nil {
				t.Fatal(err)
			}
			for _, half := range ends(programs) {
				var translated [2]map[string][]string
				var sizes [2]int
				for i, constants := range []bpf.Constants{constants, nil} {
					tracer.constants = constants
					prog, err := tracer.load(p, half)
					if err != nil {
						t.Fatal(err)
					}
					translated[i], sizes[i] = functionsOf(t, prog.(loadedProgram).Program)
					prog.Close()
				}
				for name, insns := range translated[0] {
					whole := translated[1][name]
					if !lacksJumps(insns, whole) {
						t.Errorf("%s, %s, %s: pruned it is another one:\n%s", c.name, p.Name, name, cmp.Diff(whole, insns))
					}
				}
				t.Logf("%s, %s: %d instructions in the kernel, without pruning %d", c.name, p.Name, sizes[0], sizes[1])
			}
		}
	}
}

// lacksJumps reports whether a function is another one without some of its jumps.
func lacksJumps(some, whole []string) bool {
	for _, ins := range whole {
		switch {
		case len(some) > 0 && some[0] == ins:
			some = some[1:]
		case !strings.HasPrefix(ins, "J"):
			return false
		}
	}
	return len(some) == 0
}

// functionsOf returns the instructions that the verifier has made of a program, by function, without how far jumps and calls go.
func functionsOf(t *testing.T, p *ebpf.Program) (functions map[string][]string, size int) {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	insns, err := info.Instructions()
	if err != nil {
		t.Fatal(err)
	}
	functions = map[string][]string{}
	name := ""
	for i := range insns {
		ins := &insns[i]
		if f := btf.FuncMetadata(ins); f != nil {
			name = f.Name
		}
		bare := asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant}
		if ins.IsFunctionReference() {
			bare.Constant = 0
		}
		if ins.OpCode.Class().IsJump() {
			bare.Offset = 0
		}
		functions[name] = append(functions[name], fmt.Sprint(bare))
	}
	return functions, len(insns)
}
