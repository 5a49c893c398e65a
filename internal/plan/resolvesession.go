// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// A SessionRequest is what sessions are to be about.
type SessionRequest struct {
	Entry []*expr.Spec // functions that open a session
	Allow []*expr.Spec // functions that are recorded in one
	Specs []*expr.Spec // functions, recorded as well, whose values are wanted
	// Optional are those of Entry and Allow that may match nothing.
	Optional []*expr.Spec
	// Deny is left out beside what the options deny; it may match nothing as well.
	Deny   []expr.Selector
	Inject []InjectedSpec // where else it is to be noted that a thread comes by
	Args   bool           // capture all arguments of every function
}

// ResolveSession turns a request into the plan of sessions. Of a function that several
// selectors name, the strongest role counts, and the items of one SPEC: of one
// that names it rather than of one with a glob. What is left out, and why, is
// returned as well; faults come back as Resolve's do.
func ResolveSession(view *kernel.View, r SessionRequest, o Options) (*Plan, []Skipped, error) {
	b := sessionBuilder{view: view, options: o, byKey: map[functionKey]int{}, known: map[Skipped]bool{}, ours: map[string]bool{}}
	var errs, unmatched []error
	matched := false // by some SPEC of Allow that has to
	var err error
	if b.denied, err = newDenials(view, slices.Concat(o.Deny, r.Deny), o.Sources); err != nil {
		return nil, nil, err
	}
	for _, d := range b.denied.all[len(o.Deny):] {
		d.optional = true
	}
	for _, part := range []struct {
		specs []*expr.Spec
		as    use
	}{{r.Entry, asEntry}, {r.Allow, asAllowed}, {r.Specs, asValues}} {
		seen := map[string]bool{} // without items: the same again adds nothing
		for _, spec := range part.specs {
			if len(spec.Items) == 0 && seen[spec.Text] {
				continue
			}
			seen[spec.Text] = true
			optional := slices.Contains(r.Optional, spec)
			b.options.Unexplained = optional
			err := b.add(spec, part.as)
			switch {
			case optional && isFault(err):
				continue
			case part.as == asAllowed && selectsNothing(spec, err):
				unmatched = append(unmatched, err)
				continue
			case part.as == asAllowed && err == nil && !optional:
				matched = true
			}
			errs = append(errs, err)
		}
	}
	if !matched {
		errs = append(errs, unmatched...)
	}
	b.options.Unexplained = false
	for _, in := range r.Inject {
		errs = append(errs, b.inject(in))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, b.skipped, err
	}
	if !slices.ContainsFunc(b.probes, func(p *Probe) bool { return p.Role == layout.RoleEntry }) {
		return nil, b.skipped, errNoEntry
	}
	if r.Args {
		for _, p := range b.probes {
			if !p.Role.Injected() {
				p.Syscall = view.SyscallParams(p.Func.Name, o.Arch)
			}
		}
	}
	p, err := sessionPlan(view, b.probes, r.Args, o)
	if err != nil {
		return nil, b.skipped, err
	}
	for _, err := range unmatched {
		o.warn("nothing is recorded for one SPEC", err)
	}
	for _, d := range b.denied.all {
		if !d.optional && !d.applied {
			o.warn("nothing is left out by one SELECTOR", fmt.Errorf("  -d %s: it matches no function that is selected", d.selector))
		}
	}
	o.warnDoubts(p)
	return p, b.skipped, nil
}

// sessionPlan gives the probes of sessions their places, and lays them out.
func sessionPlan(view *kernel.View, probes []*Probe, args bool, o Options) (*Plan, error) {
	for i, p := range probes {
		p.ID = i
		if p.Spec == nil {
			p.Method = p.defaultMethod()
			if o.Method != nil {
				p.Method = o.Method(p)
			}
		}
		if args && !p.Role.Injected() {
			passed, _, _ := signature(p.Func, o.Arch)
			if p.Syscall != nil {
				passed = syscallParams(view, p.Syscall, o.Arch)
			}
			p.Args = layout.ArgsOf(passed, o.Arch)
		}
		if err := p.Lay(); err != nil {
			return nil, err
		}
	}
	return &Plan{Probes: probes, Sessions: true}, nil
}

// A use is what a SPEC makes of the functions that it selects.
type use uint8

const (
	asEntry   use = iota // they open a session
	asAllowed            // they are recorded in one
	asValues             // so are they, and their values are wanted
)

func isFault(err error) bool {
	var fault *expr.ErrorList
	return errors.As(err, &fault)
}

// selectsNothing reports whether an error says that there is nothing of what a
// SPEC selects, rather than that it makes no sense.
func selectsNothing(spec *expr.Spec, err error) bool {
	var fault *expr.ErrorList
	return errors.As(err, &fault) && len(fault.Errors) == 1 && fault.Errors[0].Code == expr.CodeUnknownFunc && fault.Errors[0].Span == spec.Selector.Span
}

type sessionBuilder struct {
	view    *kernel.View
	options Options
	probes  []*Probe            // of functions, and what is injected
	byKey   map[functionKey]int // of probes, where there is one for a function
	skipped []Skipped
	known   map[Skipped]bool
	denied  *denials
	ours    map[string]bool // of functions of vmlinux: whether tracing uses them
}

// A functionKey is what is one function: an address or, where there are none, a name.
type functionKey struct {
	addr         uint64
	name, module string
}

func keyOf(f kernel.Function) functionKey {
	if f.Addr != 0 {
		return functionKey{addr: f.Addr}
	}
	return functionKey{name: f.Name, module: f.Module}
}

// Reasons for which a function is left out.
var (
	errUsedByTracing = errors.New("used by the tracing itself; give its full name if it must be traced")
	errNoEntry       = errors.New("this kernel has none of the functions that would open a session")
	errNoItems       = errors.New("the function has no such values")
)

// add adds the functions that a SPEC selects.
func (b *sessionBuilder) add(spec *expr.Spec, as use) error {
	o := b.options
	o.Deny = nil // what is denied is left out here, where the reason is kept
	found, err := b.candidates(spec, o)
	if err != nil {
		return err
	}
	one := isName(spec.Selector)
	var first error
	firstName := ""
	added := 0
	for _, c := range found {
		f := c.f
		if i, joined := b.byKey[keyOf(f)]; joined && b.probes[i].Func.Name == f.Name && len(spec.Items) == 0 && as == asAllowed {
			added++ // it is there already
			continue
		}
		err := b.reason(f, one)
		if err == nil {
			err = b.join(spec, c, as, one)
		}
		if err == nil {
			added++
			continue
		}
		b.skip(f, err)
		var fault *expr.ErrorList
		if first == nil || !errors.As(first, &fault) {
			first, firstName = err, f.String()
		}
	}
	var fault *expr.ErrorList
	switch {
	case added > 0:
		return nil
	case errors.As(first, &fault):
		return first
	}
	msg := fmt.Sprintf("%s %v", spec.Selector, errNoCode)
	switch {
	case first == nil:
	case firstName == spec.Selector.String():
		msg = fmt.Sprintf("%s cannot be traced: %v", firstName, first)
	default:
		msg = fmt.Sprintf("nothing that %s selects can be traced: %s: %v", spec.Selector, firstName, first)
	}
	return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnknownFunc, Span: spec.Selector.Span, Msg: msg}}}
}

// skip notes a function that is left out, once for each reason.
func (b *sessionBuilder) skip(f kernel.Function, why error) {
	s := Skipped{Func: f, Why: why}
	if !b.known[s] {
		b.known[s] = true
		b.skipped = append(b.skipped, s)
	}
}

// candidates returns the functions that a SPEC names, which may be those that
// serve system calls.
func (b *sessionBuilder) candidates(spec *expr.Spec, o Options) ([]candidate, error) {
	if spec.Selector.Kind == expr.Syscall {
		return candidates(b.view, spec, o)
	}
	funcs, err := Select(b.view, spec, o)
	if err == nil {
		funcs, err = b.located(funcs)
	}
	found := make([]candidate, len(funcs))
	for i, f := range funcs {
		found[i].f = f
	}
	return found, err
}

// located adds the addresses of functions, by which the kernel's stacks are
// read. Without symbols there are none, and names must do.
func (b *sessionBuilder) located(funcs []kernel.Function) ([]kernel.Function, error) {
	if b.view.Symbols() != nil || !slices.ContainsFunc(funcs, func(f kernel.Function) bool { return f.Addr == 0 }) {
		return funcs, nil
	}
	return b.view.Locate(funcs)
}

// reason says why a function is not to be traced; nil if it is.
func (b *sessionBuilder) reason(f kernel.Function, named bool) error {
	if d := b.denied.apply(f); d != nil {
		return fmt.Errorf("denied by %s", d.selector)
	}
	if !named && b.usedByTracing(f) {
		return errUsedByTracing
	}
	return nil
}

// usedByTracing is UsedByTracing, asked once for each function.
func (b *sessionBuilder) usedByTracing(f kernel.Function) bool {
	if f.Module != "" {
		return false
	}
	used, known := b.ours[f.Name]
	if !known {
		used = UsedByTracing(f)
		b.ours[f.Name] = used
	}
	return used
}

// isName reports whether a selector is the name of a function.
func isName(s expr.Selector) bool { return s.Path == "" && !glob.Is(s.Name) }

// join makes f one of the session's functions. Two names of one address are
// one function, known by the name that BTF describes.
func (b *sessionBuilder) join(spec *expr.Spec, c candidate, as use, named bool) error {
	f := c.f
	key := keyOf(f)
	i, joined := b.byKey[key]
	switch {
	case !joined:
		i = len(b.probes)
		b.byKey[key] = i
		b.probes = append(b.probes, newFunction(f, b.options.Arch))
	case f.Type != nil && b.probes[i].Spec == nil && (b.probes[i].Func.Type == nil || b.probes[i].Func.Alias && !f.Alias):
		better := newFunction(f, b.options.Arch)
		better.Role, better.asked = b.probes[i].Role, b.probes[i].asked
		b.probes[i] = better
	}
	p := b.probes[i]
	if as == asEntry {
		p.Role = layout.RoleEntry
	}
	if named && as != asAllowed && p.asked == nil {
		p.asked = spec
	}
	if len(spec.Items) == 0 {
		return nil
	}
	switch {
	case p.Spec == spec: // by another name of it
		return nil
	case p.Spec == nil, named && !isName(p.Spec.Selector):
	case named == isName(p.Spec.Selector):
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeAmbiguous, Span: spec.Selector.Span,
			Msg: fmt.Sprintf("%s has values of another SPEC already: %s", f, p.Spec.Text), Hint: "put all of them into one SPEC"}}}
	default:
		return nil // the SPEC that names the function says what is wanted of it
	}
	valued, err := newTargetProbe(b.view, spec, p.Func, c.Target, b.options)
	if err != nil {
		if named {
			return err
		}
		b.skip(f, errors.Join(errNoItems, err))
		return nil
	}
	valued.Role, valued.Class, valued.asked = p.Role, p.Class, p.asked
	b.probes[i] = valued
	return nil
}

// newFunction describes a function that is recorded in sessions by its type; without one
// its parameters are the registers, and its result a register.
func newFunction(f kernel.Function, arch string) *Probe {
	p := &Probe{Func: f, Probe: layout.Probe{Name: f.Name, Function: f.Name, Role: layout.RoleInside}}
	typed := false
	if p.Params, p.Result, typed = signature(f, arch); typed || servesSyscall(f.Name) { // else all that is known is the register
		p.Class = layout.ClassOf(f.Name, p.Result)
	}
	return p
}

// signature returns the parameters of a function and its result, nil if there
// is none; typed is false if nothing is known but the registers.
func signature(f kernel.Function, arch string) (params []layout.Param, result btf.Type, typed bool) {
	proto := protoOf(f)
	switch {
	case proto == nil && servesSyscall(f.Name):
		return layout.Untyped(arch), syscallResult, false
	case proto == nil:
		return layout.Untyped(arch), layout.Word(), false
	}
	if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); void {
		return layout.Locate(proto.Params, nil, arch), nil, true
	}
	return layout.Locate(proto.Params, proto.Return, arch), proto.Return, true
}

// syscallResult is the type of what a system call returns.
var syscallResult = &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}

// servesSyscall reports whether a name is one that the macros for system calls
// give to functions. BTF has many of them not, but all return long.
func servesSyscall(name string) bool {
	name, ok := strings.CutPrefix(name, "__")
	if !ok {
		return false
	}
	abi, _, ok := strings.Cut(name, "_sys_")
	return ok && slices.Contains([]string{"x64", "ia32", "ia32_compat", "x32_compat", "arm64", "arm64_compat", "se", "do", "se_compat", "do_compat"}, abi)
}
