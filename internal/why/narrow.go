// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/trace"
)

const (
	// mostFunctions is how many functions one run records.
	mostFunctions = 400
	// mostSites is how many calls through pointers one run looks at: the kernel takes a while
	// to remove a kprobe.
	mostSites = 12
	// mostRuns is how often the command is run to find the function.
	mostRuns = 8
	// siteDepth is how deep functions are whose calls through pointers are looked at.
	siteDepth = 2
	// mostDepth is how deep functions are that one run records. Deeper ones are reached by the
	// next run, which begins farther down.
	mostDepth = 5
)

// A Place is where a system call was refused.
type Place struct {
	// Chain are the functions that have failed, from the one that serves the system call to
	// the innermost one.
	Chain []Link
	// Stack is the chain as text, within the kernel's stack.
	Stack []byte
	// Runs is how often the command was run for it, and for the way that it took.
	Runs int
	// Whole says that no function is known that the innermost one could have called and that
	// was not recorded. Else it may have been one of those.
	Whole bool
	// Inside is the function that the innermost one consists of, if the kernel lets nobody trace
	// that: it was inline in the source.
	Inside string
	// asked are the capabilities that the innermost one has asked for in vain, in this order. askedLast says
	// that nothing else is known of what it did then.
	asked     []capability
	askedLast bool
	// vain says that something else has decided behind that, which would have been tested with the capability, too.
	vain bool
	// later is the failure of a process that it is of, if that has other arguments than the first one.
	later *Failure
	// looked says that it was seen what functions returned that Inside calls.
	looked bool
	// handed says that the innermost one was called with the error.
	handed bool
	// recorded are the functions whose calls were recorded in the last run, by address.
	recorded map[uint64]bool
	below
}

// A Link is one call of a chain.
type Link struct {
	Function kernel.Function
	Result   uint64 // its return register
	Text     string // "-EINVAL"
	// stored is where it has stored the error that it has not returned: "*errp". "": nowhere.
	stored string
}

// Innermost is the last function of the chain that returned or stored the error of the system call. Those
// behind it failed with others, of which it made this one, or asked for a capability for it.
func (p *Place) Innermost() *Link { return &p.Chain[p.innermost()] }

// caller is the function that has called the innermost one.
func (p *Place) caller() *Link { return &p.Chain[max(p.innermost()-1, 0)] }

func (p *Place) innermost() int {
	end := len(p.Chain)
	if i := slices.IndexFunc(p.Chain, func(l Link) bool { return isCheck(l.Function.Name) }); i > 0 {
		end = i
	}
	for i := end - 1; i > 0; i-- {
		if l := &p.Chain[i]; l.stored != "" || uint32(l.Result) == uint32(p.Chain[0].Result) {
			return i
		}
	}
	return 0
}

// ErrGone says that the command did not fail again, or not as often as the first time.
var ErrGone = errors.New("run again, the command made no such call that failed")

// Find runs the command again until it is known in which function a call was refused. resolver
// names the addresses of stacks. If it does not come to the end, it returns the place that is known
// so far besides the error, if there is one.
func (r *Runner) Find(ctx context.Context, seen *Seen, chosen int, resolver output.Resolver) (*Place, error) {
	f := &seen.Calls[chosen]
	entry, ok := r.Kernel.SymbolNamed(f.Function, "")
	if f.Function == "" || !ok {
		return nil, fmt.Errorf("the kernel does not tell which function serves %s", f.Name())
	}
	text, err := attach.OpenText()
	if err != nil {
		return nil, err
	}
	defer text.Close()
	n := &narrowing{runner: r, graph: newCallGraph(r.Kernel, text), failure: f, nth: r.ordinal(seen, chosen), resolver: resolver,
		entry: entry.Addr, tried: map[uint64]bool{}, probed: map[string]bool{}, handed: map[uint64]bool{}, refused: map[uint64]bool{}}
	return n.find(ctx)
}

// ordinal returns how many calls before this one failed in the same way.
func (s *Seen) ordinal(chosen int) (n int) {
	f := &s.Calls[chosen]
	for i := range chosen {
		if s.Calls[i].manner() == f.manner() {
			n++
		}
	}
	return n + f.skipped
}

func newCallGraph(view *kernel.View, text *attach.Text) *callGraph {
	g := &callGraph{arch: view.Arch(), symbol: view.Symbol, read: text.Read, describe: view.SelectAt, thunks: map[uint64]string{}, nodes: map[uint64]*node{}, kinds: map[uint64]kind{}}
	if g.arch == "amd64" {
		for name, at := range code.Thunks() {
			if s, ok := view.SymbolNamed(name, ""); ok {
				g.thunks[s.Addr] = at
			}
		}
	}
	return g
}

// A narrowing is the search for a function.
type narrowing struct {
	runner   *Runner
	graph    *callGraph
	failure  *Failure
	nth      int // of the calls that fail in this way
	resolver output.Resolver
	entry    uint64
	// innermost is the innermost function by the runs so far; 0: none is known.
	innermost uint64
	tried     map[uint64]bool // functions that were recorded below the innermost one
	probed    map[string]bool // sites that were looked at while it was the innermost one
	handed    map[uint64]bool // functions that were called with the error, and have not made it
	refused   map[uint64]bool // functions that were to be recorded, and took no probe
}

func (n *narrowing) find(ctx context.Context) (*Place, error) {
	roots, depth := []uint64{n.entry}, siteDepth
	chain := []uint64{n.entry}
	var known *Place // by the runs so far
	for run := 1; ; run++ {
		if ctx.Err() != nil {
			return known, ErrInterrupted
		}
		near, err := n.graph.reach(roots, mostFunctions, mostDepth, depth)
		if err != nil {
			return known, err
		}
		near.sites = near.sites[:min(len(near.sites), mostSites)]
		looked := n.runner.looking(run, known)
		p, targets, err := n.run(ctx, chain, near)
		looked()
		if err != nil {
			return known, err
		}
		known, p.Runs = p, run
		last := p.Innermost().Function.Addr
		if last != n.innermost {
			n.innermost = last
			clear(n.tried)
			clear(n.probed)
		}
		for _, f := range near.functions {
			n.tried[f.Addr] = true
			if !p.recorded[f.Addr] && !n.handed[f.Addr] {
				n.refused[f.Addr] = true
			}
		}
		for _, s := range near.sites {
			n.probed[s.place()] = true
		}
		chain = chain[:0]
		for _, l := range p.Chain {
			chain = append(chain, l.Function.Addr)
		}
		if p.handed && run < mostRuns { // the next run looks for the call before it
			n.handed[last] = true
			last, n.innermost = p.caller().Function.Addr, 0
			roots, depth = append([]uint64{last}, targets[last]...), 1
			continue
		}
		next, err := n.open(last, targets)
		if err != nil {
			return known, err
		}
		if p.Whole = len(next) == 0; p.Whole || run == mostRuns {
			p.Inside = n.graph.inside(last)
			return p, n.lookBelow(p)
		}
		roots, depth = append([]uint64{last}, targets[last]...), 1
	}
}

// looking says which run this is, and into which function it looks, after some runs of a search.
func (r *Runner) looking(runs int, known *Place) (done func()) {
	if known == nil {
		return func() {}
	}
	return r.slow(fmt.Sprintf("run %d: looking into %s...", runs+1, known.Innermost().Function))
}

// lookBelow finds out what nobody can trace below a place.
func (n *narrowing) lookBelow(p *Place) (err error) {
	in := p.Innermost().Function
	at := in.Addr
	p.calling = in.String()
	for _, a := range n.graph.node(at).callees {
		if s, ok := n.graph.symbol(a); ok && p.Inside != "" && s.Name == p.Inside {
			at, p.calling = a, p.Inside
		}
	}
	p.pointers = n.graph.node(at).pointers
	if p.Inside != "" {
		p.pointed = nil // the search does not go on from there, even where the kernel takes a kprobe
	}
	p.hidden, err = n.graph.hidden(at, p.pointed, n.refused)
	return err
}

// open returns the functions that the innermost function may have called and that were not
// recorded, with itself for calls through pointers that were not looked at.
func (n *narrowing) open(innermost uint64, targets map[uint64][]uint64) (open []uint64, err error) {
	below, err := n.graph.reach(append([]uint64{innermost}, targets[innermost]...), mostFunctions, 1, 1)
	if err != nil {
		return nil, err
	}
	for _, f := range below.functions {
		if f.Addr != innermost && !n.tried[f.Addr] && !n.handed[f.Addr] {
			open = append(open, f.Addr)
		}
	}
	own := n.graph.node(innermost).sites
	for _, s := range own[:min(len(own), mostSites)] {
		if !n.probed[s.place()] {
			open = append(open, innermost)
		}
	}
	return open, nil
}

// run records sessions of the system call. targets are where calls through pointers led to, by
// the function that makes them.
func (n *narrowing) run(ctx context.Context, chain []uint64, near reached) (p *Place, targets map[uint64][]uint64, err error) {
	view := n.runner.Kernel
	request := &plan.SessionRequest{IntResults: true}
	if request.Entry, err = trace.ParseSpecs([]string{specOf(n.failure.Function, n.runner.argumentItems(n.failure))}); err != nil {
		return nil, nil, err
	}
	functions := map[string]kernel.Function{}
	for _, f := range near.functions {
		functions[f.String()] = f
	}
	if err := n.graph.classify(chain); err != nil { // the check of capabilities may not have been reached
		return nil, nil, err
	}
	for _, a := range chain {
		f := n.graph.kinds[a].function
		functions[f.String()] = f
	}
	for a := range n.handed {
		delete(functions, n.graph.kinds[a].function.String())
	}
	delete(functions, n.failure.Function)
	delete(functions, capabilityCheck)
	var specs []string
	for _, f := range functions {
		specs = append(specs, n.spec(f))
	}
	if f, ok := n.runner.function(capabilityCheck); ok {
		specs = append(specs, capabilitySpec(f.Type.Type.(*btf.FuncProto)))
	}
	slices.Sort(specs)
	if request.Allow, err = trace.ParseSpecs(specs); err != nil {
		return nil, nil, err
	}
	request.Optional = request.Allow
	sites := map[string]site{}
	for _, s := range near.sites {
		spec, err := expr.Parse(s.place() + "(" + s.at + ")")
		if err != nil {
			return nil, nil, err
		}
		sites[s.place()] = s
		request.Inject = append(request.Inject, plan.InjectedSpec{Spec: spec})
	}
	report := bpf.SessionSettings{Traced: true, Errors: errorSet(n.failure.Errno)}
	c := collector{narrowing: n, sites: sites, printer: output.NewSessions(output.SessionOptions{Resolver: n.resolver})}
	_, err = n.runner.run(ctx, true, trace.Request{Sessions: request, Options: plan.Options{Arch: view.Arch()}}, trace.Settings{Report: report},
		func(p *plan.Plan, records recordSeq) error { return c.take(p, report.Traced, records) })
	if err := outcome(c.sessions, n.nth, err); err != nil {
		return nil, nil, err
	}
	return c.place, c.targets, nil
}

// outcome returns the error of a run that has seen so many failures, of which the nth is wanted: none if that is among them,
// even if the process has ended then. Another failure does not stand for it.
func outcome(failures, nth int, err error) error {
	switch {
	case failures > nth && errors.Is(err, ErrEnded):
		return nil
	case err == nil && failures <= nth:
		return ErrGone
	}
	return err
}

// spec is the SPEC of a function: with where it may store an error and, of the innermost one, with what may hand one on.
func (n *narrowing) spec(f kernel.Function) string {
	var items []string
	if f.Addr == n.innermost {
		items = arguments(f)
	}
	for _, place := range places(f) {
		items = append(items, atReturn(place))
	}
	return specOf(f.String(), items)
}

// errorSet is the set of one error.
func errorSet(errno uint64) *[bpf.MaxErrno/64 + 1]uint64 {
	set := new([bpf.MaxErrno/64 + 1]uint64)
	set[errno/64] |= 1 << (errno % 64)
	return set
}

// capabilitySpec asks for what the check of capabilities was asked for. Its second parameter is the
// user namespace, its third one the capability.
func capabilitySpec(proto *btf.FuncProto) string {
	if len(proto.Params) < 3 {
		return capabilityCheck
	}
	namespace := proto.Params[1].Name
	return fmt.Sprintf("%s(%s, %s->ns.inum, %s->level)", capabilityCheck, proto.Params[2].Name, namespace, namespace)
}

// asked returns the capabilities that the innermost function of a chain has asked for and that were
// refused, by the calls of the session. Several may do, as CAP_DAC_READ_SEARCH and CAP_DAC_OVERRIDE to
// read a file. last says that it has called nothing else after that.
func asked(fields *output.Fields, calls []session.Call, innermost uint64) (all []capability, last bool, err error) {
	within := -1
	for i := range calls {
		c := &calls[i]
		if c.Func.Func.Addr == innermost {
			within, all = i, nil // the last call of it
		}
		if within < 0 || !isWithin(calls, i, within) {
			continue
		}
		if last = c.Func.Func.Name == capabilityCheck && c.Failed; !last {
			continue
		}
		for _, v := range []session.Values{c.Entered, c.Returned} {
			wanted, err := capabilityOf(fields, v.Event)
			if err != nil {
				return nil, false, err
			}
			if wanted != nil && !slices.Contains(all, *wanted) {
				all = append(all, *wanted)
			}
		}
	}
	return all, last, nil
}

// isWithin reports whether a call was made by another one or by what that called.
func isWithin(calls []session.Call, at, within int) bool {
	for at > within {
		at = calls[at].Parent
	}
	return at == within
}

// capabilityOf reads what capabilitySpec has asked for.
func capabilityOf(fields *output.Fields, e *event.Event) (*capability, error) {
	if e == nil {
		return nil, nil
	}
	values, err := fields.Of(e)
	if err != nil {
		return nil, err
	}
	var got []uint64
	for _, v := range values {
		scalar, _ := v.Slots()
		if scalar == nil {
			continue
		}
		n, ok := e.Value(scalar)
		if !ok {
			return nil, nil
		}
		got = append(got, n)
	}
	if len(got) < 3 {
		return nil, nil
	}
	return &capability{number: uint64(uint32(got[0])), namespace: uint64(uint32(got[1])), level: uint64(uint32(got[2]))}, nil
}

// A collector takes what is wanted of one session.
type collector struct {
	narrowing *narrowing
	sites     map[string]site
	printer   *output.Sessions
	sessions  int
	place     *Place // of the wanted session or, until that has come, of the last one
	targets   map[uint64][]uint64
}

func (c *collector) take(p *plan.Plan, traced bool, records recordSeq) error {
	decoder := &session.Decoder{Plan: p, Traced: traced}
	fields := output.NewFields(output.Names{})
	runner, failure, began := c.narrowing.runner, c.narrowing.failure, time.Now()
	recorded, looked := c.probes(p, c.narrowing.runner.failed)
	for s, err := range decoder.Sessions(records) {
		if err != nil {
			return err
		}
		if s.State != session.Returned || len(s.Chain.Frames) == 0 || c.sessions > c.narrowing.nth {
			continue
		}
		later, err := runner.again(failure, fields, s.Chain.Frames[0].Values.Event)
		if err != nil {
			return err
		}
		if later != nil {
			later.madeBy(s)
		}
		if runner.Process != nil && !runner.Process.takes(failure, later, began) {
			continue
		}
		c.sessions++
		c.place, c.targets = &Place{recorded: recorded, later: failure.other(later), below: below{pointed: maps.Clone(looked)}}, map[uint64][]uint64{}
		for i := range s.Chain.Frames {
			f := &s.Chain.Frames[i]
			c.place.Chain = append(c.place.Chain, Link{Function: f.Func.Func, Result: f.Result, Text: output.ResultText(f.Func, f.Result)})
		}
		calls := s.Calls()
		if err := c.place.addStored(fields, s, calls, c.narrowing.failure.Errno); err != nil {
			return err
		}
		last := &s.Chain.Frames[c.place.innermost()]
		if c.place.handed, err = handed(fields, last, cmp.Or(later, failure)); err != nil {
			return err
		}
		for i := range s.Chain.Frames {
			if f := &s.Chain.Frames[i]; f.Func.Func.Name != capabilityCheck {
				f.Values = session.Values{} // the last run shows those of the innermost one
			}
		}
		if c.place.Stack, err = c.printer.AppendStack(nil, &s.Chain); err != nil {
			return err
		}
		if c.place.asked, c.place.askedLast, err = asked(fields, calls, c.place.Innermost().Function.Addr); err != nil {
			return err
		}
		for i := range s.Trace {
			if err := c.target(fields, &s.Trace[i]); err != nil {
				return err
			}
		}
		if runner.Process != nil {
			break
		}
	}
	return nil
}

// madeBy notes who has made a call, and when it ended, by its session.
func (f *Failure) madeBy(s *session.Session) {
	f.Time, f.PID, f.TID, f.Inner, f.Comm = s.End, s.PID, s.TID, s.Inner, s.Comm
}

// addStored lets the chain of a place lead on to the calls that have stored the error, and that of its session
// likewise. A session's chain ends before a function that has returned NULL, unless the error is one that NULL
// mostly stands for.
func (p *Place) addStored(fields *output.Fields, s *session.Session, calls []session.Call, errno uint64) error {
	for {
		last := p.innermost()
		f := &s.Chain.Frames[last]
		at := slices.IndexFunc(calls, func(c session.Call) bool { return c.Func == f.Func && c.Entry == f.Entry })
		if at < 0 {
			return nil
		}
		found, where := -1, ""
		for i := at + 1; i < len(calls); i++ {
			c := &calls[i]
			if c.Parent != at || !c.Finished || c.Result != 0 {
				continue
			}
			place, err := stored(fields, c.Func.Func, c.Returned.Event, errno)
			if err != nil {
				return err
			}
			if place != "" {
				found, where = i, place
			}
		}
		if found < 0 {
			return nil
		}
		c := &calls[found]
		if next := last + 1; next == len(p.Chain) || s.Chain.Frames[next].Func != c.Func || s.Chain.Frames[next].Entry != c.Entry {
			p.Chain = append(p.Chain[:next], Link{Function: c.Func.Func, Result: c.Result, Text: output.ResultText(c.Func, c.Result)})
			s.Chain.Frames = append(slices.Clone(s.Chain.Frames[:next]), session.Frame{Func: c.Func, Entry: c.Entry, Duration: c.Duration, OffCPU: c.OffCPU, Finished: true, Failed: true})
		}
		p.Chain[last+1].stored = where
	}
}

// probes returns the functions whose calls are recorded, and the calls through pointers that are looked at, which
// have led nowhere yet. failed are probes that the kernel has not taken.
func (c *collector) probes(p *plan.Plan, failed []attach.Failure) (recorded map[uint64]bool, looked map[uint64][]uint64) {
	recorded, looked = map[uint64]bool{}, map[uint64][]uint64{}
	for _, probe := range p.Probes {
		if slices.ContainsFunc(failed, func(f attach.Failure) bool { return f.Probe.ID == probe.ID }) {
			continue
		}
		if at, ok := c.sites[probe.Name]; ok && probe.Role.Injected() {
			looked[at.call] = nil
		} else {
			recorded[probe.Func.Addr] = true
		}
	}
	return recorded, looked
}

// target notes where a call through a pointer led to.
func (c *collector) target(fields *output.Fields, step *session.Step) error {
	at, ok := c.sites[step.Probe]
	if step.Kind != session.StepProbe || !ok || step.Values.Event == nil {
		return nil
	}
	values, err := fields.Of(step.Values.Event)
	if err != nil {
		return err
	}
	view := c.narrowing.runner.Kernel
	from, known := view.SymbolNamed(at.function, "")
	for _, v := range values {
		scalar, _ := v.Slots()
		if scalar == nil || !known {
			continue
		}
		to, ok := step.Values.Event.Value(scalar)
		if s, named := view.Symbol(to); ok && named && s.Offset == 0 {
			c.targets[from.Addr] = appendNew(c.targets[from.Addr], to)
			c.place.pointed[at.call] = appendNew(c.place.pointed[at.call], to)
		}
	}
	return nil
}

// appendNew appends what is not there yet.
func appendNew(all []uint64, one uint64) []uint64 {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}
