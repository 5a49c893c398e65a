// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/layout"
)

// Watch runs the command and returns which of its system calls fail. Of a process it returns what
// has failed until the call was seen that is waited for, with an error until something else ended it.
func (r *Runner) Watch(ctx context.Context) (*Seen, error) {
	a, ok := abis[r.Kernel.Arch()]
	if !ok {
		return nil, fmt.Errorf("no system calls are known of %s", r.Kernel.Arch())
	}
	table, _ := r.Kernel.SymbolNamed("sys_call_table", "")
	failing, served := a.failing(table.Addr)
	texts := []string{failing}
	w := watcher{runner: r, abi: &a, served: served, fields: output.NewFields(output.Names{}), seen: &Seen{}}
	w.writings = append(w.writings, newWriting(&a, false))
	if _, ok := r.Kernel.SymbolNamed(a.compat.symbol, ""); ok {
		w.writings = append(w.writings, newWriting(&a, true))
	}
	for _, x := range w.writings {
		for _, spec := range x.specs() {
			name, _, _ := strings.Cut(spec, "(")
			if _, ok := r.function(name); ok {
				texts = append(texts, spec)
			}
		}
	}
	requests, headers := r.requestSpecs()
	w.headers = headers
	texts = append(append(texts, w.causeSpecs(table.Addr)...), requests...)
	specs, err := trace.ParseSpecs(texts)
	if err != nil {
		return nil, err
	}
	s := w.seen
	if r.Process != nil {
		w.awaiting = &awaiting{process: r.Process}
	}
	s.Status, err = r.run(ctx, false, trace.Request{Specs: specs, Options: plan.Options{Arch: r.Kernel.Arch()}}, trace.Settings{Tail: r.UserStacks, Users: r.Users, Unwinder: r.Unwinder}, w.take)
	slices.SortStableFunc(s.Calls, func(x, y Failure) int { return cmp.Compare(x.Time, y.Time) })
	slices.SortStableFunc(s.Messages, func(x, y Message) int { return cmp.Compare(x.Time, y.Time) })
	w.assign()
	s.Killed = w.killed()
	s.goOn = r.goOn
	s.Incomplete = s.Incomplete || r.callsMissing()
	return s, err
}

const (
	signalPoint = "signal_deliver"
	// endFunction ends a thread, with what waitpid returns of it: in the lowest bits the signal that has ended it, or its process.
	endFunction = "do_exit"
	endSignal   = "$arg1 & 0x7f"
)

// causeSpecs are the SPECs of what makes errors outside of the functions that serve system calls,
// as far as the kernel has it.
func (w *watcher) causeSpecs(table uint64) (specs []string) {
	r := w.runner
	if f, ok := r.function(seccompFunction); ok {
		refused := "return == -1"
		if proto := f.Type.Type.(*btf.FuncProto); layout.ClassOf(f.Name, result(proto)) == layout.NeverFails { // a truth value
			refused = "return == 0"
		}
		denied, state, served := w.abi.denied(refused, table)
		w.deniedState, w.deniedServed = state, served
		specs = append(specs, denied)
		if filters := r.filterSpec(); filters != "" {
			specs = append(specs, filters)
		}
	}
	if _, ok := r.Kernel.SymbolNamed("__traceiter_"+signalPoint, ""); ok {
		specs = append(specs, "rawtp:"+signalPoint+"(sig, "+signalFlags+", "+signalHandler+")")
	}
	if _, ok := r.function(endFunction); ok {
		specs = append(specs, endFunction+"("+endSignal+", ("+endSignal+") != 0)")
	}
	return specs
}

const (
	signalFlags   = "ka->sa.sa_flags"
	signalHandler = "ka->sa.sa_handler"
)

// A watcher reads the records of the first run.
type watcher struct {
	runner *Runner
	abi    *abi
	served string
	// deniedState and deniedServed are as abi.denied returns them.
	deniedState, deniedServed string

	headers  map[string]string // as requestSpecs returns them
	writings []*writing
	fields   *output.Fields
	seen     *Seen
	denied   []denial
	released []*filters
	signal   []signalSeen
	ends     []ending
	answers  []answer
	// forgotten is the time of the last answer that is not kept; 0: all are.
	forgotten uint64
	// awaiting ends the run; nil: the command does.
	awaiting *awaiting
	stacks   int // bytes of stacks that are kept
	oldest   int // the first call whose stack may be kept
	full     int // at so many calls of a command some are forgotten
}

// mostStacks is how many bytes of stacks are kept, those of the last calls.
const mostStacks = 32 << 20

// keepStack keeps the stack of the last call.
func (w *watcher) keepStack(u *userStack) {
	if u == nil {
		return
	}
	calls := w.seen.Calls
	calls[len(calls)-1].user = u
	w.stacks += u.size()
	for ; w.stacks > mostStacks && w.oldest < len(calls); w.oldest++ {
		if old := calls[w.oldest].user; old != nil {
			w.stacks -= old.size()
			calls[w.oldest].user = nil
		}
	}
}

// noSystemCall is what the names of functions end with that the table has for numbers of no system call.
const noSystemCall = "_ni_syscall"

// denial returns a system call that a filter has refused. Numbers of 32-bit calls have other meanings than those of
// the kernel's table, where serving stands.
func (w *watcher) denial(number, state, serving uint64) denial {
	d := denial{number: number, foreign: w.abi.foreign(number, state)}
	if d.foreign != "" || number >= maxNumber {
		return d
	}
	if s, ok := w.runner.Kernel.Symbol(serving); ok && s.Offset == 0 && !strings.HasSuffix(s.Name, noSystemCall) {
		d.function = s.Name
	}
	return d
}

// assign says of each call that has failed what had made its error. A call that was denied ends
// next in its thread; a signal is delivered behind the call that it has interrupted. Events of
// different CPUs are not in the order of time before.
func (w *watcher) assign() {
	slices.SortFunc(w.denied, func(x, y denial) int { return cmp.Compare(x.time, y.time) })
	slices.SortFunc(w.signal, func(x, y signalSeen) int { return cmp.Compare(x.time, y.time) })
	slices.SortFunc(w.ends, func(x, y ending) int { return cmp.Compare(x.time, y.time) })
	last := map[uint32]*denial{}
	denied := w.denied
	for i := range w.seen.Calls {
		f := &w.seen.Calls[i]
		for ; len(denied) > 0 && denied[0].time <= f.Time; denied = denied[1:] {
			last[denied[0].tid] = &denied[0]
		}
		if d, ok := last[f.TID]; ok {
			f.seccomp = d.number == f.Number
			d.ended = f.seccomp
			delete(last, f.TID)
		}
	}
	w.assignFilters()
	w.assignSignals()
	w.assignAnswers()
}

// killed returns the process that the signal has ended of which the exit status of the command tells, if there is one.
// A program may exit with such a status for another reason. assign has said which denials were errors of calls.
func (w *watcher) killed() *Killing {
	var last *ending
	for i := range slices.Backward(w.ends) {
		e := &w.ends[i]
		switch {
		case last == nil && uint64(w.seen.Status) == 128+e.signal:
			last = e
		case last != nil && e.pid == last.pid && e.tid == e.pid && e.signal == last.signal:
			last = e // other threads may have names of their own
		}
	}
	if last == nil {
		return nil
	}
	k := &Killing{Signal: signalName(last.signal), Comm: last.comm, PID: last.pid, Inner: last.inner}
	if last.signal != uint64(unix.SIGSYS) {
		return k
	}
	for i := range w.denied {
		d := &w.denied[i]
		if !d.ended && slices.ContainsFunc(w.ends, func(e ending) bool { return e.pid == last.pid && e.tid == d.tid && e.time >= d.time }) {
			k.denied = d
		}
	}
	return k
}

// nameKills puts the signal that has ended a process in the place of SIGKILL. The kernel delivers SIGKILL to all threads of a
// process that ends, whatever the signal was (complete_signal), and where one of its threads has ended the others. Then
// there is no signal. The end of any thread tells: on Linux 7.3 the kernel skips ours for some of many that end at once.
func (w *watcher) nameKills() {
	next := map[uint32]uint64{}
	left := len(w.ends)
	for i := range slices.Backward(w.signal) {
		s := &w.signal[i]
		for ; left > 0 && w.ends[left-1].time >= s.time; left-- {
			next[w.ends[left-1].pid] = w.ends[left-1].signal
		}
		if s.number == uint64(unix.SIGKILL) {
			s.number = next[s.pid]
		}
	}
}

// soon is how long after its call, in nanoseconds, a signal is delivered that has made the call return EINTR. The kernel delivers it on
// the way back to the process, so that no call comes between.
const soon = 10_000_000

// assignSignals says of each interrupted call which signal was delivered next to its thread. EINTR is what some calls return that do not
// begin again, as those that wait for a time (sock_intr_errno), but not only for a signal: then that has to come at once.
func (w *watcher) assignSignals() {
	w.nameKills()
	next := map[uint32]*signalSeen{}
	later := map[uint32]uint64{} // when the next call of a thread ended
	left := len(w.signal)
	for i := len(w.seen.Calls) - 1; i >= 0; i-- {
		f := &w.seen.Calls[i]
		for ; left > 0 && w.signal[left-1].time >= f.Time; left-- {
			next[w.signal[left-1].tid] = &w.signal[left-1]
		}
		s, end := next[f.TID], f.Time+soon
		if t, ok := later[f.TID]; ok {
			end = min(end, t)
		}
		if interrupted(f.Errno) || f.Errno == uint64(unix.EINTR) && s != nil && s.time <= end {
			f.signal = s
		}
		later[f.TID] = f.Time
	}
}

func (w *watcher) take(p *plan.Plan, records recordSeq) error {
	w.seen.Listened = true // else the run has ended before
	for e, err := range event.All(p, records) {
		if err != nil {
			return err
		}
		if e.Probe == nil {
			continue // a loss, which is counted
		}
		if err := w.add(e); err != nil {
			return err
		}
		most := mostLast
		if w.awaiting != nil {
			most = mostSeen
		}
		w.denied, w.signal, w.ends = latest(w.denied, most), latest(w.signal, most), latest(w.ends, most)
	}
	return nil
}

// add adds what an event tells.
func (w *watcher) add(e *event.Event) error {
	fields, err := w.fields.Of(e)
	if err != nil {
		return err
	}
	v := values{e, fields}
	switch e.Probe.Func.Name {
	case seccompFunction:
		d := w.denial(v.number(deniedNumber), v.number(w.deniedState), v.number(w.deniedServed))
		d.time, d.tid = e.Time, e.TID
		w.denied = append(w.denied, d)
		return nil
	case releaseFunction:
		w.addFilters(e, v)
		return nil
	case answerFunction:
		w.addAnswer(e, v)
		return nil
	case signalPoint:
		w.signal = append(w.signal, signalSeen{time: e.Time, pid: e.PID, tid: e.TID, number: v.number("sig"), flags: v.number(signalFlags), handler: v.number(signalHandler)})
		return nil
	case endFunction:
		w.ends = append(w.ends, ending{pid: e.PID, inner: e.Inner, comm: comm(e), time: e.Time, tid: e.TID, signal: v.number(endSignal)})
		return nil
	}
	if header, ok := w.headers[e.Probe.Func.Name]; ok {
		w.addRequest(e, v, header)
		return nil
	}
	for _, x := range w.writings {
		if text, ok := x.text(v); ok {
			w.seen.addMessage(Message{Time: e.Time, PID: e.PID, Text: text})
			if w.awaiting != nil {
				w.awaiting.message(w.seen)
			}
			return nil
		}
	}
	w.addCall(w.failure(e, v), e)
	return nil
}

// failure returns the system call that has failed, which an event of its end tells of.
func (w *watcher) failure(e *event.Event, v values) Failure {
	f := Failure{Time: e.Time, PID: e.PID, TID: e.TID, Inner: e.Inner, Comm: comm(e), Number: v.number(w.abi.number), Errno: -v.number("ret"), ip: v.number(w.abi.ip)}
	if f.foreign = w.abi.foreign(f.Number, v.number(w.abi.compat.state)); f.foreign == call32 {
		for i, arg := range w.abi.compat.args {
			f.Args[i] = uint64(uint32(v.number(arg)))
		}
		return f
	}
	if w.served != "" && f.foreign == "" {
		if s, ok := w.runner.Kernel.Symbol(v.number(w.served)); ok && s.Offset == 0 {
			f.Function = s.Name
			f.Params = w.runner.Kernel.SyscallParamsAt(s.Addr, w.runner.Kernel.Arch())
			f.Types = plan.SyscallTypes(w.runner.Kernel, f.Params, w.runner.Kernel.Arch())
		}
	}
	for i, arg := range w.abi.args {
		f.Args[i] = v.number(arg)
		f.Texts[i] = v.text(textItem(arg))
	}
	return f
}

// addCall adds a call that has failed, which an event tells of.
func (w *watcher) addCall(f Failure, e *event.Event) {
	f.skipped = w.seen.forgotten[f.manner()]
	w.seen.Calls = append(w.seen.Calls, f)
	w.keepStack(newUserStack(e))
	n := len(w.seen.Calls)
	switch {
	case w.awaiting != nil:
		w.awaiting.call(w.seen)
	case n >= max(w.full, mostLast+mostOlder):
		w.seen.forgetMost(w.runner.Wish, mostLast, mostOlder)
		w.full = len(w.seen.Calls) + mostOlder
	}
	if len(w.seen.Calls) < n {
		w.countStacks()
	}
}

// countStacks counts the stacks again, when calls were forgotten.
func (w *watcher) countStacks() {
	w.stacks, w.oldest = 0, 0
	for i := range w.seen.Calls {
		if u := w.seen.Calls[i].user; u != nil {
			w.stacks += u.size()
		}
	}
}

// comm returns the name of the thread of an event.
func comm(e *event.Event) string {
	text, _, _ := strings.Cut(string(e.Comm[:]), "\x00")
	return text
}

// addFilters adds what an event of releaseFunction tells.
func (w *watcher) addFilters(e *event.Event, v values) {
	task, _, _ := strings.Cut(v.fields[0].Label(), "->")
	f := filtersOf(task, e, v)
	f.tid = uint32(v.number(task + "->pid"))
	w.released = append(w.released, f)
	if len(w.released) > mostThreads {
		w.released = slices.Delete(w.released, 0, 1)
	}
}

// assignFilters gives the calls that seccomp has refused the filters of their threads.
func (w *watcher) assignFilters() {
	for i := range w.seen.Calls {
		f := &w.seen.Calls[i]
		if !f.seccomp {
			continue
		}
		for j := range w.released {
			if r := w.released[j]; r.tid == f.TID && r.time >= f.Time && (f.filters == nil || r.time < f.filters.time) {
				f.filters = r
			}
		}
	}
}
