// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// fewFunctions is up to how many functions are hooked each by a trampoline of
// its own. That is the cheapest for the traced system, but every program is
// verified by itself, and both to attach and to detach one waits for the
// kernel.
const fewFunctions = 16

// A Choice is a method and why those that would be better were passed over.
type Choice struct {
	Method plan.Method
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
// for the end of the call would be among them.
func Choose(p *plan.Plan, branches bool) (Choice, error) {
	return choose(p, branches, running{}.has)
}

func choose(p *plan.Plan, branches bool, try func(Capability) error) (Choice, error) {
	c := Choice{try: try}
	if len(p.Probes) <= fewFunctions {
		err := c.chooseFew(p, branches)
		return c, err
	}
	byAddress := sync.OnceValue(c.byAddress)
	if c.pass(CapTracingMulti) {
		c.Method = plan.MethodTracingMulti
	} else {
		c.Method = byAddress()
	}
	for _, probe := range p.Probes {
		if !probe.IsCall() {
			continue
		}
		m := c.Method
		if m == plan.MethodTracingMulti && (!probe.TracingMultiPossible() || plan.UsedByTracing(probe.Func)) {
			m = byAddress()
		}
		if err := probe.SetMethod(m); err != nil {
			return c, err
		}
	}
	return c, nil
}

// chooseFew takes fsession for calls of which something is kept in between.
// Functions of sessions keep it elsewhere: for them two programs cost less than
// one that has to ask at which end it runs (455 and 432 instructions for a
// call that the filters leave out).
//
// Functions that programs call themselves are hooked as many are: the kernel runs no
// such program inside another, of whatever tool. A trampoline's would run while
// another tool's holds a lock that it waits for, and the other way round on another CPU.
func (c *Choice) chooseFew(p *plan.Plan, branches bool) error {
	byAddress := sync.OnceValue(c.byAddress)
	for _, probe := range p.Probes {
		if probe.Method == plan.MethodFentry && plan.UsedByTracing(probe.Func) {
			if err := probe.SetMethod(byAddress()); err != nil {
				return err
			}
		}
	}
	c.Method = plan.MethodFentry
	both := func(p *plan.Probe) bool {
		return p.Method == plan.MethodFentry && p.Session == nil && p.Entry != nil && p.Return != nil
	}
	if branches || !slices.ContainsFunc(p.Probes, both) || !c.pass(CapFsession) {
		return nil
	}
	c.Method = plan.MethodFsession
	for _, probe := range p.Probes {
		if both(probe) {
			if err := probe.SetMethod(c.Method); err != nil {
				return err
			}
		}
	}
	return nil
}

// byAddress is the best method for many functions that goes by their addresses: it
// needs no signature of them.
func (c *Choice) byAddress() plan.Method {
	switch {
	case c.pass(CapKprobeSession):
		return plan.MethodSession
	case c.pass(CapKprobeMulti):
		return plan.MethodMulti
	}
	return plan.MethodKprobe
}

// Supported says why a kernel cannot attach with a method that was asked for
// and takes a newer one; nil if it can or if that is for the attempt to show.
func Supported(m plan.Method) error { return supported(running{}, m) }

func supported(h host, m plan.Method) error {
	needs, ok := map[plan.Method]Capability{
		plan.MethodMulti:        CapKprobeMulti,
		plan.MethodSession:      CapKprobeSession,
		plan.MethodFsession:     CapFsession,
		plan.MethodTracingMulti: CapTracingMulti,
	}[m]
	if !ok {
		return nil
	}
	return refusal(needs, h.has(needs))
}

// refusal says what it takes to have what a kernel has not, in place of what the
// kernel said. Other errors, of too few privileges for one, come up again when
// something is attached.
func refusal(c Capability, err error) error {
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	return unsupported{c}
}

// unsupported says that a kernel has not what a method takes.
type unsupported struct{ lacks Capability }

func (e unsupported) Error() string {
	return fmt.Sprintf("%s is not supported by this kernel: it takes %s", e.lacks, takes[e.lacks])
}

func (unsupported) Unwrap() error { return ebpf.ErrNotSupported }

// takes is what a kernel must have for a method that not every kernel has. Debian's
// 6.1 is new enough for kprobe.multi, and built without FPROBE.
var takes = map[Capability]string{
	CapKprobeMulti:   "Linux 5.18 and CONFIG_FPROBE",
	CapKprobeSession: "Linux 6.10 and CONFIG_FPROBE",
	CapFsession:      "Linux 7.0",
	CapTracingMulti:  "Linux 7.3 on amd64",
}

// locate looks up the addresses of functions, if some probe is attached by
// address.
func locate(p *plan.Plan, view *kernel.View) error {
	for _, probe := range p.Probes {
		if probe.Method == plan.MethodMulti || probe.Method == plan.MethodSession ||
			probe.Method == plan.MethodKprobe && probe.IsCall() && len(p.Probes) >= manyKprobes {
			return p.Locate(view)
		}
	}
	return nil
}
