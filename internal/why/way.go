// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// Way runs the command once more, and returns with what the innermost function was called and
// which way it took. It returns nil if that is not to be had. Of a function that is too large there
// is no way. Of a function that takes no probe it deduces what decided. fault is the memory of the
// process by which an EFAULT came about; nil: that is not known.
func (r *Runner) Way(ctx context.Context, seen *Seen, chosen int, p *Place, tails *output.Tails) (taken *Taken, fault *Cause, err error) {
	taken, fault, err = r.take(ctx, seen, chosen, p, tails)
	if err != nil && !errors.Is(err, ErrGone) { // then nothing more will be known of the place
		return taken, fault, err
	}
	return taken, fault, cmp.Or(p.settle(fault != nil || p.Inside != "" && taken != nil, r.Kernel.DescribeAt), err)
}

// take is Way but for what the way says of functions below.
func (r *Runner) take(ctx context.Context, seen *Seen, chosen int, p *Place, tails *output.Tails) (taken *Taken, fault *Cause, err error) {
	if p.Inside != "" && seen.Calls[chosen].Errno != uint64(unix.EFAULT) {
		taken, err = r.wayInside(ctx, seen, chosen, p)
		return taken, nil, err
	}
	taken, fault, err = r.way(ctx, seen, chosen, p, tails, "path()")
	if errors.Is(err, errBlocks) {
		taken, fault, err = r.way(ctx, seen, chosen, p, tails)
	}
	if p.Inside != "" {
		taken = nil // its caller has not made the error
	}
	return taken, fault, err
}

func (r *Runner) way(ctx context.Context, seen *Seen, chosen int, p *Place, tails *output.Tails, more ...string) (*Taken, *Cause, error) {
	f, last, args := &seen.Calls[chosen], p.Innermost().Function, r.argumentItems(&seen.Calls[chosen])
	var texts []string
	if last.Name == f.Function {
		texts = append(texts, waySpec(last, p.Innermost().failed(f.Errno), false, slices.Concat(args, more, []string{duration})))
	} else {
		texts = append(texts, waySpec(last, p.Innermost().failed(f.Errno), true, more), specOf(f.Function, append(args, fmt.Sprintf("return == -%d", f.Errno), duration)))
	}
	if f.Errno == uint64(unix.EFAULT) {
		texts = append(texts, r.faultSpecs()...)
	}
	specs, err := trace.ParseSpecs(texts)
	if err != nil {
		return nil, nil, err
	}
	w := wayTaker{runner: r, failure: f, hidden: args, began: time.Now(), entry: f.Function, inner: last.Name, nth: r.ordinal(seen, chosen), one: r.Process != nil, tails: tails, fields: output.NewFields(output.Names{Symbol: symbols.Appender(r.Kernel)}), last: map[uint32]*Taken{}, verdicts: map[uint32]*decide.Verdict{}, faults: map[uint32]*fault{}, faulting: faultFunctions[r.Kernel.Arch()]}
	c := p.cause()
	w.wanting = c != nil && c.Kind == causeCapability
	_, err = r.run(ctx, true, trace.Request{Specs: specs, Options: plan.Options{Arch: r.Kernel.Arch()}}, trace.Settings{}, w.take)
	if err = outcome(w.ended, w.nth, err); err == nil || errors.Is(err, ErrGone) {
		p.Runs++
	}
	if err != nil {
		return nil, nil, err
	}
	p.verdict, p.later, p.vain = w.verdict, f.other(w.later), w.found != nil && w.found.vain
	if w.fault == nil {
		return w.found, nil, nil
	}
	return w.found, w.fault.cause(cmp.Or(w.later, f)), nil
}

// faultSpecs are the SPECs of the function by which the kernel gets over memory of a process that it
// cannot copy. Those that copy are not to be traced, or are inlined.
func (r *Runner) faultSpecs() (specs []string) {
	if at, ok := faultFunctions[r.Kernel.Arch()]; ok {
		if _, ok := r.function(at.function); ok {
			specs = append(specs, at.function+"("+at.addr+")")
		}
	}
	return specs
}

// faultFunctions are these functions, by architecture, and which parameter has the address.
var faultFunctions = map[string]struct{ function, addr string }{
	"amd64": {"fixup_exception", "fault_addr"},
	"arm64": {"__do_kernel_fault", "addr"},
}

// failed are the predicates of calls of the function that end with an error as this one did.
func (l *Link) failed(errno uint64) []string {
	switch {
	case l.stored != "":
		return []string{"return == 0", fmt.Sprintf("%s == -%d", atReturn(l.stored), errno)}
	case l.Function.Type == nil:
		return []string{fmt.Sprintf("(int)return == -%d", errno)} // of a type that is not known
	}
	return []string{fmt.Sprintf("(long)return == -%d", errno)}
}

// waySpec is the SPEC of calls of a function for which some predicates hold, with more items.
func waySpec(f kernel.Function, predicates []string, args bool, more []string) string {
	items := []string{}
	if f.Type != nil {
		proto, ok := f.Type.Type.(*btf.FuncProto)
		for i := 0; ok && args && i < len(proto.Params); i++ {
			if name := proto.Params[i].Name; name != "" {
				items = append(items, name)
			}
		}
	}
	return specOf(f.String(), append(append(items, more...), predicates...))
}

const duration = "$duration"

// longValue is how much of an argument is shown.
const longValue = 100

// A wayTaker takes the call that belongs to the system call.
type wayTaker struct {
	runner  *Runner
	failure *Failure
	later   *Failure // that was taken for it, of a process
	began   time.Time
	hidden  []string // items that are not shown
	entry   string
	inner   string
	nth     int
	tails   *output.Tails
	fields  *output.Fields
	last    map[uint32]*Taken // the last call of each thread
	faults  map[uint32]*fault // likewise
	// verdicts are on the ways of last.
	verdicts map[uint32]*decide.Verdict
	// faulting is one of faultFunctions.
	faulting struct{ function, addr string }
	wanting  bool // the call has failed for want of a capability
	ended    int  // system calls that have failed so
	one      bool // nothing else is to be taken than the call
	found    *Taken
	verdict  *decide.Verdict // on its way; nil: there is none
	fault    *fault          // that belongs to it
}

func (w *wayTaker) take(p *plan.Plan, records recordSeq) error {
	for e, err := range event.All(p, records) {
		if err != nil {
			return err
		}
		if e.Kind == bpf.KindLost || w.ended > w.nth {
			continue
		}
		name := e.Probe.Func.Name
		if err := w.addFault(e, name); err != nil {
			return err
		}
		if name == w.inner {
			if w.last[e.TID], err = w.of(e); err != nil {
				return err
			}
		}
		if name == w.entry {
			if err := w.end(e); err != nil {
				return err
			}
			if w.one && w.ended > 0 {
				break
			}
		}
	}
	return nil
}

// setDenied puts the test of a capability in place of a later one, if there is one, which made an exception: who
// has the capability needs none. Below stand the tests before it without which nobody would have asked for the capability.
func (t *Taken) setDenied(e *event.Event, way *event.Path, v *decide.Verdict) {
	denied, ok := decide.Denied(e, way, v, isCheck)
	if ok {
		later := output.VerdictText(e.Probe, &way.Decisions[v.Decision], v)
		t.Path = append(t.Path[:len(t.Path)-len(later)], output.VerdictText(e.Probe, &way.Decisions[denied.Decision], &denied)...)
		t.addTested("after", later)
		v = &denied
	}
	for _, before := range decide.Before(e, way, v, isCheck) {
		if before.Holds != "" { // the way has the others, too
			t.addTested("before", output.VerdictText(e.Probe, &way.Decisions[before.Decision], &before))
		}
	}
}

// addTested adds a verdict on a decision before or after the one that decided.
func (t *Taken) addTested(when string, verdict []string) {
	for _, line := range verdict {
		if what, ok := strings.CutPrefix(line, "decided"); ok {
			t.Path = append(t.Path, "tested "+when+" that"+what)
		}
	}
}

// end takes what belongs to a system call that has ended.
func (w *wayTaker) end(e *event.Event) error {
	fields, err := w.fields.Of(e)
	if err != nil {
		return err
	}
	later, err := w.runner.again(w.failure, w.fields, e)
	if err != nil {
		return err
	}
	if w.one && !w.runner.Process.takes(w.failure, later, w.began) {
		delete(w.last, e.TID)
		return nil
	}
	w.ended++
	w.later = later
	w.found, w.verdict, w.fault = w.last[e.TID], nil, nil // nothing of an earlier failure stays, if a record of this one was lost
	if w.found != nil {
		w.verdict = w.verdicts[e.TID]
	}
	v := values{e, fields}
	if x := w.faults[e.TID]; x != nil && x.time+v.number(duration) >= e.Time { // within the call
		w.fault = x
	}
	delete(w.last, e.TID)
	return nil
}

// addFault notes that memory of a process could not be copied.
func (w *wayTaker) addFault(e *event.Event, name string) error {
	if name != w.faulting.function {
		return nil
	}
	fields, err := w.fields.Of(e)
	if err == nil {
		w.faults[e.TID] = &fault{e.Time, values{e, fields}.number(w.faulting.addr)}
	}
	return err
}

// of returns a call with its arguments, and the way that it took; nil if there is nothing to show
// but the result.
func (w *wayTaker) of(e *event.Event) (*Taken, error) {
	fields, err := w.fields.Of(e)
	way, ok := e.Path()
	decides := ok && len(way.Decisions) > 0
	if err != nil {
		return nil, err
	}
	delete(w.verdicts, e.TID)
	v, failed := decide.Of(e, &way)
	if ok && failed {
		w.verdicts[e.TID] = &v
	}
	t := &Taken{Function: string(symname.Append(nil, e.Probe.Func.Name, e.Probe.Func.Module))}
	for _, f := range fields {
		if f.AtReturn() || strings.HasSuffix(f.Label(), "return") || f.Label() == duration || slices.Contains(w.hidden, f.Label()) {
			continue
		}
		value := f.Append(nil, e)
		if len(value) > longValue {
			value = append(value[:longValue:longValue], "..."...)
		}
		t.Args = append(t.Args, Argument{terminal.Name(f.Label()), terminal.Name(string(value))})
	}
	if decides {
		t.setPath(w.tails.AppendPath(nil, e, &way))
		if failed && w.wanting {
			if t.vain = decide.Vain(e, &way, &v, isCheck); !t.vain {
				t.setDenied(e, &way, &v)
			}
		}
	} else if len(t.Args) == 0 {
		return nil, nil
	}
	return t, nil
}
