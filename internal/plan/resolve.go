// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/layout"
)

// mostExplained is for how many SPECs that match nothing a hint is looked for: among all names
// of a kernel that takes milliseconds each.
const mostExplained = 32

// maxProbes bounds a plan: some probes for every function of a kernel.
const maxProbes = 1 << 17

// A Skipped is a selected function that is not traced, and why.
type Skipped struct {
	Func kernel.Function
	Hook *Hook // nil for a function
	Why  error
}

// Inlined reports whether it is an inlined copy of a function.
func (s *Skipped) Inlined() bool { return s.Hook != nil && s.Hook.Inlined }

// Name returns the name that views would give it.
func (s *Skipped) Name() string {
	if s.Inlined() {
		return s.Hook.inlinedLabel(s.Func)
	}
	return s.Func.String()
}

// Resolve turns SPECs into a Plan. Faults of the SPECs' text come back joined, as
// *expr.ErrorList values, all at once. A glob may select functions for which the items make
// no sense: they are left out and returned in skipped, unless no function is left.
func Resolve(view *kernel.View, specs []*expr.Spec, o Options) (p *Plan, skipped []Skipped, err error) {
	p = &Plan{Redact: o.Redact, Owner: o.owner(), asked: o.Owner}
	var errs []error
	every := o
	o.denied = sync.OnceValues(func() (*denials, error) { return every.denials(view) })
	for _, spec := range specs {
		o.unexplained = len(errs) >= mostExplained
		probes, left, err := resolveSpec(view, spec, o)
		skipped = append(skipped, left...)
		if err != nil {
			errs = append(errs, err)
		}
		p.Probes = append(p.Probes, probes...)
		if len(p.Probes) > maxProbes {
			return nil, skipped, fmt.Errorf("these SPECs select more than %d functions, or the same ones again and again", maxProbes)
		}
	}
	errs = append(errs, checkPaths(p.Probes))
	if err := errors.Join(errs...); err != nil {
		return nil, skipped, err
	}
	if denied, err := o.denied(); err != nil {
		return nil, skipped, err
	} else if err := denied.checkIdle(view, o); err != nil {
		return nil, skipped, err
	}
	skipped = append(skipped, p.spare()...)
	for i, probe := range p.Probes {
		probe.ID = i
	}
	o.warnDoubts(p)
	return p, skipped, nil
}

// Many is the largest number of functions whose calls one can trace without a second thought.
const Many = 2000

// spare takes out of a plan for very many functions those that globs select and tracing itself
// calls. With everything traced, a record costs many times as much with them: each of these
// functions is called for it several times, and has its own programs, which leave the call out.
func (p *Plan) spare() (skipped []Skipped) {
	if len(p.Probes) <= Many {
		return nil
	}
	p.Probes = slices.DeleteFunc(p.Probes, func(probe *Probe) bool {
		ours := probe.Kind == expr.Function && !isName(probe.Spec.Selector) && UsedByTracing(probe.Func)
		if ours {
			skipped = append(skipped, Skipped{Func: probe.Func, Why: errUsedByTracing})
		}
		return ours
	})
	return skipped
}

// resolveSpec resolves one SPEC for all functions that it selects.
func resolveSpec(view *kernel.View, spec *expr.Spec, o Options) (probes []*Probe, skipped []Skipped, err error) {
	found, err := candidates(view, spec, o)
	if err != nil {
		return nil, nil, err
	}
	var first error
	for i := range found {
		c := &found[i]
		probe, err := (*Probe)(nil), c.bad
		if err == nil {
			probe, err = newProbeOn(view, spec, c.f, c.Hook, o)
		}
		if err != nil {
			left := Skipped{Func: c.f, Why: err}
			if c.Kind != expr.Function {
				left.Hook = &c.Hook
			}
			skipped = append(skipped, left)
			if first == nil && c.bad != nil {
				err = untraceable(spec, c)
			}
			if first == nil {
				first = err
			}
			continue
		}
		probes = append(probes, probe)
	}
	if more := len(found) - 1; len(probes) == 0 && more > 0 && found[0].Inlined {
		first = fmt.Errorf("%w\nnor can it be traced at %s where it was inlined", first, plural.Of(more, "more place{s}"))
	}
	if len(probes) == 0 {
		return nil, skipped, first
	}
	return probes, skipped, nil
}

// NewProbe resolves one SPEC for one function.
func NewProbe(view *kernel.View, spec *expr.Spec, f kernel.Function, o Options) (*Probe, error) {
	return newProbeOn(view, spec, f, Hook{}, o)
}

// newProbeOn resolves one SPEC for a hook that is reached through function f, or
// through no function.
func newProbeOn(view *kernel.View, spec *expr.Spec, f kernel.Function, t Hook, o Options) (*Probe, error) {
	if err := t.check(f); err != nil {
		return nil, err
	}
	p := &Probe{Func: f, Hook: t, Probe: layout.Probe{Name: f.Name, Function: f.Name, Kind: t.Kind, Spec: spec, Paired: o.Paired, Owner: o.owner(), Placed: t.Kind == expr.UserFunction && !o.unplaced}}
	switch {
	case t.Inlined:
		p.Name = t.inlinedLabel(f)
	case t.Kind != expr.Function:
		p.Name = t.labelOf(spec)
	case f.InProgram(""):
		p.Name, p.InProgram = f.String(), true
	}
	scope := &expr.Scope{Func: p.Name, Arch: o.Arch, Types: kernelTypes{view, f.Module}, Macros: kernelTypes{view, f.Module}}
	scope.Doubt = func(d *expr.Error) { p.doubts = append(p.doubts, d) }
	p.declare(scope, o.Arch)
	items, err := expr.Check(spec, scope)
	if err != nil {
		if t.Kind == expr.Function {
			hintSyscall(err, spec, f.Name)
		}
		return nil, err
	}
	if err := expr.Withhold(spec, items, o.redacts); err != nil {
		return nil, err
	}
	p.Items = items
	if p.Path() && p.InProgram {
		return nil, p.pathFault("the kernel lets nobody probe the instructions of a BPF program", "leave it out")
	}
	if p.Path() && len(o.Redact) > 0 {
		return nil, p.pathFault("it shows registers, of which nobody knows whether they hold what is to be redacted", "leave it out")
	}
	p.Method = p.defaultMethod()
	if o.Method != nil && p.IsCall() && !p.InProgram {
		p.Method = o.Method(p)
	}
	if p.Path() {
		p.Method = layout.MethodKprobe // see With
	}
	return p, p.Lay()
}

// defaultMethod returns a method that works for the target as far as types tell.
func (p *Probe) defaultMethod() layout.Method {
	switch {
	case p.Hook.Kind == expr.Tracepoint:
		return layout.MethodTracepoint
	case p.Hook.Kind == expr.RawTracepoint:
		return layout.MethodTPBTF
	case p.InProgram:
		return layout.MethodFentry
	case p.Hook.Kind == expr.UserFunction, p.Hook.Kind == expr.StaticProbe:
		return layout.MethodUprobe
	case p.Hook.Kind == expr.Instruction || !p.fentryPossible():
		return layout.MethodKprobe
	}
	return layout.MethodFentry
}

// fentryPossible reports whether a trampoline takes the function's signature, as far as
// types tell. The function must be described by BTF and not be endless. It may have up to
// twelve words of parameters, each where trampolines look for it, and no variable
// arguments. Its result must fit one word.
func (p *Probe) fentryPossible() bool {
	proto := protoOf(p.Func)
	if proto == nil || endless(p.Func) || len(p.Params) < len(proto.Params) && !p.Func.Cut.Params || p.Func.Namesakes || p.Func.Type.Name != p.Func.Name && !p.Func.Alias {
		return false // trampolines are found by BTF name, which copies such as .isra.0 do not have
	}
	if strings.Contains(p.Func.Type.Name, "___") && !p.InProgram {
		return false // cilium/ebpf takes the end of such a name for a CO-RE flavour and does not find it
	}
	used := 0
	for _, param := range p.Params {
		used += param.Loc.Slots
		if param.Loc.Slots > 2 || param.Loc.Apart {
			return false
		}
	}
	switch btf.UnderlyingType(proto.Return).(type) {
	case *btf.Struct, *btf.Union, *btf.Float:
		return false
	}
	if layout.Words(proto.Return) > 1 {
		return false // of a larger result, trampolines keep the first half only
	}
	return used <= 12 // MAX_BPF_FUNC_ARGS
}

// Unfit is why the probe's method cannot take its function, as far as types tell. It is nil for
// methods that go by addresses.
func (p *Probe) Unfit() error {
	possible := p.fentryPossible
	if p.Method == layout.MethodTracingMulti {
		possible = p.TracingMultiPossible
	}
	switch {
	case !p.Method.Trampoline() || possible():
		return nil
	case endless(p.Func):
		return errors.New("the kernel itself calls it on the way out of each trampoline, so that one of its own would never end; kprobes are safe")
	case p.InProgram:
		return errors.New("no trampoline could take its signature, and functions of BPF programs have nothing else")
	}
	return errors.New("BTF has no signature of it under this name that a trampoline could take; kprobes need none")
}

// TracingMultiPossible reports whether the function can be part of a tracing_multi link.
// Programs for many functions count argument words as registers are counted, so those must
// be the words of a trampoline's context.
func (p *Probe) TracingMultiPossible() bool {
	if !p.fentryPossible() {
		return false
	}
	for _, param := range p.Params {
		if param.Loc.Reg >= 0 && param.Loc.Reg != param.Loc.Slot || param.Loc.Reg < 0 && param.Loc.Slots > 1 {
			return false
		}
	}
	return true
}
