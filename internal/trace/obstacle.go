// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Obstacle says what stands in the way of all tracing, and what to do about it; nil if
// nothing is known to.
func Obstacle(view *kernel.View) error {
	p, err := view.Privileges()
	if err != nil {
		return err
	}
	if o, found := view.Obstacle(p); found {
		return obstacle(o)
	}
	if view.Tested() {
		return nil
	}
	if err := attach.Lacking(); err != nil {
		release, _ := view.Release()
		return fmt.Errorf("cannot trace Linux %s: %w", release, err)
	}
	return nil
}

func obstacle(o kernel.Fact) error {
	hint := o.Do
	if hint != "" {
		hint = "\n" + hint
	}
	return fmt.Errorf("cannot trace: %s%s", o, hint)
}

// switchedOff returns what is switched off by which some probe would be hit. All may be attached, and nothing is seen.
func switchedOff(view *kernel.View, p *plan.Plan) (off kernel.Fact, is bool) {
	uses := map[kernel.FactName]bool{}
	for _, probe := range p.Probes {
		if probe.Path() { // its blocks have kprobes, however its calls are traced
			uses[kernel.FactKprobes] = true
		}
		switch probe.Method {
		case layout.MethodKprobe:
			uses[kernel.FactKprobes] = true
			// On amd64 a kprobe at a function's entry is hit by ftrace.
			uses[kernel.FactFtrace] = uses[kernel.FactFtrace] || view.Arch() == "amd64" && (probe.IsCall() || atEntry(&probe.Hook))
		case layout.MethodFentry, layout.MethodFsession, layout.MethodTracingMulti, layout.MethodKprobeMulti, layout.MethodKprobeSession:
			uses[kernel.FactFtrace] = uses[kernel.FactFtrace] || !probe.InProgram
		}
	}
	for _, name := range []kernel.FactName{kernel.FactFtrace, kernel.FactKprobes} {
		if off, is := view.SwitchedOff(name); is && uses[name] {
			return off, true
		}
	}
	return off, false
}

// atEntry reports whether ftrace's hook of a function is at the instruction: endbr64 may come before it.
func atEntry(h *plan.Hook) bool {
	const endbr = 4
	return h.Kind == expr.Instruction && (h.Offset == 0 || h.Offset == endbr)
}
