// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// fewFunctions is up to how many functions (one counts once for each SPEC) are hooked each by a trampoline of
// its own. That is the cheapest for the traced system, but every program is
// verified by itself, and both to attach and to detach one waits for the
// kernel.
const fewFunctions = 16

// A Choice is a method and why those that would be better were passed over.
type Choice struct {
	Method layout.Method
	Passed []error

	try func(Capability) error
}

// pass notes why a method is not used; it returns whether it could be.
func (c *Choice) pass(needs Capability) bool {
	err := c.try(needs)
	if err != nil {
		c.Passed = append(c.Passed, err)
	}
	return err == nil
}

// Choose decides how the probes of a plan are attached where nobody has said
// so. A few get a trampoline each, with one program for both ends of a call
// where the kernel has such, more the method that hooks many functions at once.
// branches says that the newest branches are wanted at return: those of the test
// for the end of the call would be among them. types has what was read of the kernel's
// types; it may be nil.
func Choose(p *plan.Plan, types *btf.Cache, branches bool) (*plan.Plan, Choice, error) {
	return choose(p, branches, running{types}.has)
}

func choose(p *plan.Plan, branches bool, try func(Capability) error) (chosen *plan.Plan, c Choice, err error) {
	c.try = try
	if !manyCalls(p) {
		chosen, err = c.few(p, branches)
	} else {
		chosen, err = c.many(p)
	}
	return chosen, c, err
}

// manyCalls reports whether a plan has more calls than fewFunctions. Those of functions of BPF programs get a trampoline each,
// however many they are.
func manyCalls(p *plan.Plan) bool {
	calls := 0
	for _, probe := range p.Probes {
		if probe.IsCall() && !probe.InProgram {
			calls++
		}
	}
	return calls > fewFunctions
}

// many takes the method that hooks many functions at once.
func (c *Choice) many(p *plan.Plan) (*plan.Plan, error) {
	byAddress := sync.OnceValue(func() layout.Method { return c.byAddress(p.Probes) })
	if c.pass(CapTracingMulti) {
		c.Method = layout.MethodTracingMulti
	} else {
		c.Method = byAddress()
	}
	return p.With(func(probe *plan.Probe) layout.Method {
		switch {
		case !probe.IsCall(), probe.InProgram:
			return probe.Method
		case c.Method == layout.MethodTracingMulti && (!probe.TracingMultiPossible() || plan.UsedByTracing(probe.Func)):
			return byAddress()
		}
		return c.Method
	})
}

// few takes fsession for calls of which something is kept in between.
// Functions of sessions keep it elsewhere: for them two programs cost less than
// one that has to ask at which end it runs (455 and 432 instructions for a
// call that the filters leave out).
//
// Functions that programs call themselves are hooked as many are: the kernel runs no
// such program inside another, of whatever tool. A trampoline's would run while
// another tool's holds a lock that it waits for, and the other way round on another CPU.
func (c *Choice) few(p *plan.Plan, branches bool) (*plan.Plan, error) {
	byAddress := sync.OnceValue(func() layout.Method { return c.byAddress(p.Probes) })
	p, err := p.With(func(probe *plan.Probe) layout.Method {
		if probe.Method == layout.MethodFentry && plan.UsedByTracing(probe.Func) {
			return byAddress()
		}
		return probe.Method
	})
	if err != nil {
		return nil, err
	}
	c.Method = layout.MethodFentry
	both := func(p *plan.Probe) bool {
		return p.Method == layout.MethodFentry && !p.InProgram && p.Role == layout.RoleCall && p.Entry != nil && p.Return != nil
	}
	if branches || !slices.ContainsFunc(p.Probes, both) || !c.pass(CapFsession) {
		return p, nil
	}
	c.Method = layout.MethodFsession
	return p.With(func(probe *plan.Probe) layout.Method {
		if both(probe) {
			return c.Method
		}
		return probe.Method
	})
}

// byAddress is the best method for many functions that goes by their addresses: it
// needs no signature of them.
func (c *Choice) byAddress(probes []*plan.Probe) layout.Method {
	switch {
	case c.pass(CapKprobeSession):
		return layout.MethodKprobeSession
	case c.pass(CapKprobeMulti) && (!seesReturns(probes) || c.pass(CapKretprobeMulti)):
		return layout.MethodKprobeMulti
	}
	return layout.MethodKprobe
}

// seesReturns reports whether returns of some call are traced.
func seesReturns(probes []*plan.Probe) bool {
	return slices.ContainsFunc(probes, func(p *plan.Probe) bool { return p.IsCall() && p.Return != nil })
}

// Supported says why a kernel cannot attach with a method that was asked for
// and takes a newer one; nil if it can or if that is for the attempt to show. types is as
// with Choose.
func Supported(m layout.Method, types *btf.Cache) error { return supported(running{types}, m) }

func supported(h host, m layout.Method) error {
	needs, ok := map[layout.Method]Capability{
		layout.MethodKprobeMulti:   CapKprobeMulti,
		layout.MethodKprobeSession: CapKprobeSession,
		layout.MethodFsession:      CapFsession,
		layout.MethodTracingMulti:  CapTracingMulti,
	}[m]
	if !ok {
		return nil
	}
	err := h.has(needs)
	if errors.Is(err, errUnpaired) { // which does not matter to all requests
		return nil
	}
	return refusal(needs, err)
}

// refusal says what it takes to have what a kernel has not, in place of what the
// kernel said. Other errors, of too few privileges for one, come up again when
// something is attached.
func refusal(c Capability, err error) error {
	switch {
	case errors.Is(err, errUnpaired):
		return fmt.Errorf("%s is not used: %w", c, errUnpaired)
	case !errors.Is(err, ebpf.ErrNotSupported):
		return nil
	}
	return unsupported{c}
}

// Why says why the kernel does not have the capability, as --attach does.
func (s Support) Why() error {
	if err := refusal(s.Capability, s.Err); err != nil {
		return err
	}
	return s.Err
}

// unsupported says that a kernel has not what a method takes.
type unsupported struct{ lacks Capability }

func (e unsupported) Error() string {
	what := "%s is not supported by this kernel: it takes %s"
	if e.lacks == CapBranchSnapshot { // records
		what = "%s are not supported by this kernel: they take %s"
	}
	return fmt.Sprintf(what, e.lacks, e.lacks.takes(runtime.GOARCH))
}

func (unsupported) Unwrap() error { return ebpf.ErrNotSupported }

// manyKprobes is how many kprobes are hooked together rather than each by itself.
const manyKprobes = 16

// locate looks up the addresses of functions, if some probe is attached by
// address.
func locate(p *plan.Plan, view *kernel.View) (*plan.Plan, error) {
	for _, probe := range p.Probes {
		if probe.Method == layout.MethodKprobeMulti || probe.Method == layout.MethodKprobeSession ||
			probe.Method == layout.MethodKprobe && probe.IsCall() && len(p.Probes) >= manyKprobes {
			return p.Located(view)
		}
	}
	return p, nil
}
