// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// A SessionRequest says what sessions to record.
type SessionRequest struct {
	Entry []*expr.Spec // functions that open a session
	Allow []*expr.Spec // functions that sessions record
	Specs []*expr.Spec // functions to record with the values that the SPEC asks for
	// Optional are SPECs of Entry and Allow that may match nothing.
	Optional []*expr.Spec
	// Deny is left out in addition to Options.Deny. It may match nothing.
	Deny   []expr.Selector
	Inject []InjectedSpec // places whose hits sessions note
	Args   bool           // capture all arguments of every function
	// IntResults takes functions without types for such that return an int. Else their results tell
	// nothing of an error: they may return anything.
	IntResults bool
}

// ResolveSession turns a request into a plan of sessions. If several selectors name a
// function, its role is the strongest one. Its items come from one SPEC only: one that
// names it is preferred to one with a glob. Functions that are left out are returned with
// the reason. Faults come back as from Resolve.
func ResolveSession(view *kernel.View, r SessionRequest, o Options) (*Plan, []Skipped, error) {
	b := sessionBuilder{view: view, options: o, byKey: map[functionKey]int{}, known: map[Skipped]bool{}, ours: map[string]bool{}}
	var errs, unmatched []error
	matched, faults := false, 0 // by a SPEC of Allow that must match; SPECs that match nothing
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
		seen := map[string]bool{} // without items, the same SPEC again adds nothing
		for _, spec := range part.specs {
			if len(spec.Items) == 0 && seen[spec.Text] {
				continue
			}
			seen[spec.Text] = true
			optional := slices.Contains(r.Optional, spec)
			b.options.unexplained = optional || faults >= mostExplained
			err := b.add(spec, part.as)
			if err != nil && !optional {
				faults++
			}
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
	b.options.unexplained = false
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
	if r.IntResults {
		for _, p := range b.probes {
			if p.Func.Type == nil && p.Kind == expr.Function && !p.Role.Injected() && p.Class == layout.NeverFails {
				p.Class = layout.FailsInt32
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
	if err := b.denied.checkIdle(view, o); err != nil {
		return nil, b.skipped, err
	}
	o.warnDoubts(p)
	return p, b.skipped, nil
}

// sessionPlan numbers the probes of sessions and lays them out.
func sessionPlan(view *kernel.View, probes []*Probe, args bool, o Options) (*Plan, error) {
	for i, p := range probes {
		if p.Path() {
			return nil, p.pathFault("sessions cannot show it yet", "give the SPEC without -e")
		}
		p.ID = i
		p.Owner = 0 // the session has it
		if p.Spec == nil {
			p.Method = p.defaultMethod()
			if o.Method != nil && !p.InProgram && p.Kind != expr.UserFunction {
				p.Method = o.Method(p)
			}
		}
		if args && !p.Role.Injected() && p.Kind != expr.UserFunction {
			passed, _, _ := signature(p.Func, kernelTypes{view, p.Func.Module}, o.Arch)
			if p.Syscall != nil {
				passed = syscallParams(view, p.Syscall, o.Arch)
			}
			p.Args = layout.ArgsOf(passed, o.Arch)
			for i := range p.Args {
				if a := &p.Args[i]; o.redacts(a.Param.Name) {
					a.Withhold()
				}
			}
		}
		if err := p.Lay(); err != nil {
			return nil, err
		}
	}
	return &Plan{Probes: probes, Sessions: true, Redact: o.Redact, Owner: o.owner(), asked: o.Owner}, nil
}

// A use says what a SPEC wants of the functions that it selects.
type use uint8

const (
	asEntry   use = iota // they open sessions
	asAllowed            // sessions record them
	asValues             // sessions record them, with values
)

func isFault(err error) bool {
	var fault *expr.ErrorList
	return errors.As(err, &fault)
}

// selectsNothing reports whether an error says that the SPEC's selector matches nothing,
// rather than that it is wrong.
func selectsNothing(spec *expr.Spec, err error) bool {
	var fault *expr.ErrorList
	return errors.As(err, &fault) && len(fault.Errors) == 1 && fault.Errors[0].Code == expr.CodeUnknownFunc && fault.Errors[0].Span == spec.Selector.Span
}

type sessionBuilder struct {
	view    *kernel.View
	options Options
	probes  []*Probe            // of functions and injected places
	byKey   map[functionKey]int // index in probes of the probe for a function
	skipped []Skipped
	known   map[Skipped]bool
	denied  *denials
	ours    map[string]bool // for functions of vmlinux: whether tracing itself uses them
}

// A functionKey identifies a function: by its address or, if that is unknown, by its name. A function of the process is
// identified by its place in a file, which may have several names, as may the place.
type functionKey struct {
	addr         uint64
	name, module string
	device, file uint64
}

func (c *candidate) key() functionKey {
	f := c.f
	if c.Kind == expr.UserFunction {
		device, file := c.Identity.Inode()
		if file == 0 { // in a recording
			return functionKey{name: c.label()} // which no function of the kernel is called
		}
		return functionKey{addr: c.Place, device: device, file: file}
	}
	if f.Addr != 0 {
		return functionKey{addr: f.Addr}
	}
	return functionKey{name: f.Name, module: f.Module}
}

// Reasons for leaving a function out.
var (
	errNoEntry = errors.New("this kernel has none of the functions that would open a session")
	errNoItems = errors.New("the function has no such values")
)

// add adds the functions that a SPEC selects.
func (b *sessionBuilder) add(spec *expr.Spec, as use) error {
	o := b.options
	o.Deny = nil // denied functions are left out below, where the reason is kept
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
		if i, joined := b.byKey[c.key()]; joined && b.probes[i].Func.Name == f.Name && len(spec.Items) == 0 && as == asAllowed {
			added++ // it is in the session already
			continue
		}
		err := c.bad
		if err == nil && c.Kind == expr.UserFunction {
			err = b.userReason(&c)
		} else if err == nil {
			err = b.reason(f, one)
		}
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

// candidates returns the functions that a SPEC names. Functions that serve system calls may
// be among them.
func (b *sessionBuilder) candidates(spec *expr.Spec, o Options) ([]candidate, error) {
	if k := spec.Selector.Kind; k == expr.Syscall || k == expr.Program || k == expr.UserFunction {
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

// located adds addresses to functions. Frames of kernel stacks are matched by them. Without
// symbols, names must do.
func (b *sessionBuilder) located(funcs []kernel.Function) ([]kernel.Function, error) {
	if !slices.ContainsFunc(funcs, func(f kernel.Function) bool { return f.Addr == 0 }) || b.view.Symbols() != nil {
		return funcs, nil
	}
	return b.view.Locate(funcs)
}

// reason returns why a function is not to be traced, or nil.
func (b *sessionBuilder) reason(f kernel.Function, named bool) error {
	if d := b.denied.apply(f); d != nil {
		return fmt.Errorf("denied by %s", d.selector)
	}
	if !named && b.usedByTracing(f) {
		return errUsedByTracing
	}
	return nil
}

// userReason is reason for a function of user space.
func (b *sessionBuilder) userReason(c *candidate) error {
	for _, d := range b.denied.all {
		if c.matchesUser(d.selector) {
			d.applied = true
			return fmt.Errorf("denied by %s", d.selector)
		}
	}
	switch {
	case c.Go:
		return errGoReturns
	case c.Offset != 0:
		return errors.New("sessions follow calls, and an instruction is only passed")
	}
	return nil
}

// usedByTracing is UsedByTracing with a cache.
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

// join adds a function to the session. Two names of one address are one function, under the
// name that BTF describes.
func (b *sessionBuilder) join(spec *expr.Spec, c candidate, as use, named bool) error {
	f := c.f
	key := c.key()
	i, joined := b.byKey[key]
	switch {
	case !joined:
		i = len(b.probes)
		b.byKey[key] = i
		b.probes = append(b.probes, newFunction(b.view, f, c.Hook, b.options.Arch))
	case f.Type != nil && b.probes[i].Spec == nil && (b.probes[i].Func.Type == nil || b.probes[i].Func.Alias && !f.Alias):
		better := newFunction(b.view, f, c.Hook, b.options.Arch)
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
	case p.Spec == spec: // the same SPEC, through another name of the function
		return nil
	case p.Spec == nil, named && !isName(p.Spec.Selector):
	case named == isName(p.Spec.Selector):
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: expr.CodeAmbiguous, Span: spec.Selector.Span,
			Msg: fmt.Sprintf("%s has values of another SPEC already: %s", f, p.Spec.Text), Hint: "put all of them into one SPEC"}}}
	default:
		return nil // the SPEC that names the function decides which values are wanted
	}
	valued, err := newProbeOn(b.view, spec, p.Func, c.Hook, b.options)
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

// newFunction describes a function in a session by its type. Without a type, its parameters
// and result are registers.
func newFunction(view *kernel.View, f kernel.Function, h Hook, arch string) *Probe {
	if h.Kind == expr.UserFunction {
		return newUserFunction(view, f, h, arch)
	}
	p := &Probe{Func: f, Probe: layout.Probe{Name: f.Name, Function: f.Name, Role: layout.RoleInside, InProgram: f.InProgram("")}}
	if p.InProgram {
		p.Name = f.String()
	}
	typed := false
	if p.Params, p.Result, typed = signature(f, kernelTypes{view, f.Module}, arch); typed || servesSyscall(f.Name) { // else nothing but the register is known
		p.Class = layout.ClassOf(f.Name, p.Result)
	}
	return p
}

// newUserFunction is newFunction for one of user space. Of a result without a type nothing is known.
func newUserFunction(view *kernel.View, f kernel.Function, h Hook, arch string) *Probe {
	p := &Probe{Func: f, Hook: h, Probe: layout.Probe{Name: h.label(), Function: f.Name, Kind: h.Kind, Role: layout.RoleInside}}
	p.declare(&expr.Scope{Types: kernelTypes{view, f.Module}}, arch)
	if f.Type != nil {
		p.Class = layout.ClassOf(f.Name, p.Result)
	}
	return p
}
