// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/layout"
)

// What --dry-run can be.
const (
	dryRunList = "list"
	dryRunLoad = "load" // the programs as well
)

// A dryRun is what --dry-run prints: what would be traced, and why the rest
// would not.
type dryRun struct {
	traced  []tracedGroup
	skipped []plan.Skipped
	failed  []attach.Failure // whose programs the kernel does not take
	methods []string         // of sessions: how many functions each would be attached by
	passed  []string         // methods that would be better, and why they are not used
	refused []string         // functions that selectors match and the kernel refuses
	unsure  []string         // instructions that the kernel may yet refuse
	caution string           // what the way of attaching may not see
	unasked bool             // no kernel was asked for its methods
	blocked string           // why nothing at all can be traced as things are
}

// A tracedGroup is a number of functions with what they have in common.
type tracedGroup struct {
	title     string
	functions []string
}

// unfit returns the probes of which it is known, without the kernel being asked, that they
// cannot be attached: it lets nobody trace their functions, or no program can be generated
// for them, since their items need too much stack.
func unfit(view *kernel.View, p *plan.Plan, target codegen.Options) (failed []attach.Failure) {
	for _, probe := range p.Probes {
		if err := cmp.Or(probe.Refusal(view), probe.Unfit()); err != nil {
			failed = append(failed, attach.Failure{Probe: probe, Err: err})
			continue
		}
		if len(probe.Items) == 0 {
			continue
		}
		if _, err := codegen.Compile(&probe.Probe, target); err != nil {
			failed = append(failed, attach.Failure{Probe: probe, Err: err})
		}
	}
	return failed
}

// dryRun lets the kernel check the programs, and says what would be traced.
func (t *tracing) dryRun(stdout io.Writer) error {
	loaded, failed, err := trace.Load(context.Background(), t.kernel, t.plan, t.settings)
	if err != nil {
		return unattachable(context.Background(), err)
	}
	t.request.Plan = loaded
	return t.request.dryRun(t.kernel, failed).print(stdout)
}

// methodCounts says how many probes each method attaches.
func methodCounts(p *plan.Plan, failed map[*plan.Probe]bool) []string {
	counts, order := map[layout.Method]int{}, []layout.Method(nil)
	for _, probe := range p.Probes {
		if failed[probe] {
			continue
		}
		if counts[probe.Method]++; counts[probe.Method] == 1 {
			order = append(order, probe.Method)
		}
	}
	var texts []string
	for _, m := range order {
		texts = append(texts, fmt.Sprintf("%s (%d)", m, counts[m]))
	}
	return texts
}

// dryRunOf describes the plan of the calls view.
func dryRunOf(p *plan.Plan, failed map[*plan.Probe]bool) []tracedGroup {
	g := tracedGroup{title: "would be traced"}
	for _, probe := range p.Probes {
		if failed[probe] {
			continue
		}
		g.functions = append(g.functions, probe.Name+itemsText(probe.Spec)+", by "+probe.Method.String())
	}
	return []tracedGroup{g}
}

// dryRunOfSessions describes the plan of sessions.
func dryRunOfSessions(p *plan.Plan, failed map[*plan.Probe]bool) []tracedGroup {
	entry, inside, injected := tracedGroup{title: "would open a session"}, tracedGroup{title: "would be recorded in it"}, tracedGroup{title: "would be injected"}
	for _, probe := range p.Probes {
		if failed[probe] {
			continue
		}
		text := probe.Func.String()
		if probe.Kind == expr.UserFunction {
			text = probe.Name
		}
		if probe.HasItems() {
			text += itemsText(probe.Spec)
		}
		if probe.Role.Injected() {
			injected.functions = append(injected.functions, probe.Name+itemsText(probe.Spec))
			continue
		}
		if probe.Role == layout.RoleEntry {
			entry.functions = append(entry.functions, text)
		} else {
			inside.functions = append(inside.functions, text)
		}
	}
	return []tracedGroup{entry, inside, injected}
}

// unsure returns the probes inside functions. The kernel decodes a function to
// see where its instructions begin only when it is to hook one of them.
func unsure(p *plan.Plan, failed map[*plan.Probe]bool) []string {
	var names []string
	for _, probe := range p.Probes {
		if t := probe.Hook; t.Kind == expr.Instruction && t.Offset != 0 && !t.Inlined && !failed[probe] && !slices.Contains(names, probe.Name) {
			names = append(names, probe.Name)
		}
	}
	return names
}

// refused returns the functions that the globs of SPECs match and that the
// kernel lets nobody trace.
func refused(view *kernel.View, specs []*expr.Spec) []string {
	if !slices.ContainsFunc(specs, func(s *expr.Spec) bool { return glob.Is(s.Selector.Name) }) {
		return nil
	}
	names := view.Refused(func(name, module string) bool {
		return slices.ContainsFunc(specs, func(s *expr.Spec) bool {
			sel := s.Selector
			return sel.Kind == expr.Function && sel.Path == "" && glob.Is(sel.Name) && glob.Match(sel.Name, name) &&
				(sel.Module == "" || module != "" && glob.Match(sel.Module, module))
		})
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// someNames is how many functions are named of those that have a reason in
// common.
const someNames = 8

func (d *dryRun) print(w io.Writer) error {
	var b strings.Builder
	for _, g := range d.traced {
		if len(g.functions) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s (%d):\n", g.title, len(g.functions))
		for _, f := range g.functions {
			fmt.Fprintf(&b, "  %s\n", terminal.Name(f))
		}
	}
	if len(d.methods) > 0 {
		fmt.Fprintf(&b, "would be attached by %s\n", strings.Join(d.methods, ", "))
	}
	if len(d.unsure) > 0 {
		fmt.Fprintf(&b, "known only on attaching, whether an instruction begins there that can be probed: %s\n", terminal.Name(strings.Join(d.unsure, " ")))
	}
	if d.blocked != "" {
		fmt.Fprintf(&b, "mind: as things are, ksnoop cannot trace: %s\n", d.blocked)
	}
	if d.caution != "" {
		fmt.Fprintf(&b, "mind: %s\n", d.caution)
	}
	if d.unasked {
		b.WriteString("mind: no kernel was asked which methods it has: these are those of one that has fentry; tracing with --btf takes kprobe or multi\n")
	}
	for _, why := range d.passed {
		fmt.Fprintf(&b, "passed over: %s\n", terminal.Name(why))
	}
	var remarks []remark
	for _, s := range d.skipped {
		remarks = append(remarks, remarkOn(s.Name(), s.Why))
	}
	for _, f := range d.failed {
		remarks = append(remarks, remarkOn(f.Probe.Name, f.Err).about(f.Probe))
	}
	for _, name := range d.refused {
		remarks = append(remarks, notOpen(name))
	}
	if len(remarks) > 0 {
		fmt.Fprintln(&b, "would not be traced:")
	}
	for _, group := range grouped(remarks) {
		fmt.Fprintf(&b, "  %s:", terminal.Name(sharedText(group)))
		for _, r := range group[:min(someNames, len(group))] {
			fmt.Fprintf(&b, " %s", terminal.Name(r.subject()))
		}
		if more := len(group) - someNames; more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
