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

// switchedOff returns what is switched off by which some probe would be hit: all may be attached, and nothing is seen.
func switchedOff(view *kernel.View, p *plan.Plan) (off []kernel.Fact) {
	uses := map[kernel.FactName]bool{}
	for _, probe := range p.Probes {
		switch probe.Method {
		case layout.MethodKprobe:
			uses[kernel.FactKprobes] = true
			uses[kernel.FactFtrace] = uses[kernel.FactFtrace] || view.Arch() == "amd64" && atEntry(probe)
		case layout.MethodFentry, layout.MethodFsession, layout.MethodTracingMulti, layout.MethodKprobeMulti, layout.MethodKprobeSession:
			uses[kernel.FactFtrace] = uses[kernel.FactFtrace] || !probe.InProgram
		}
	}
	for _, name := range []kernel.FactName{kernel.FactFtrace, kernel.FactKprobes} {
		if f, is := view.SwitchedOff(name); is && uses[name] {
			off = append(off, f)
		}
	}
	return off
}

// atEntry reports whether a kprobe is where ftrace's hook of its function is, at the beginning or behind endbr64: on amd64 it is
// hit by ftrace then. A kretprobe is there, too.
func atEntry(p *plan.Probe) bool {
	const endbr = 4
	return p.Hook.Kind != expr.Instruction || p.Hook.Offset == 0 || p.Hook.Offset == endbr
}
