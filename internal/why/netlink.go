// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A request by netlink is answered with a message. If the message is an error, no system call has
// failed. The function that serves the request returns that error, so it stands for the one that
// serves a system call: ip, tc and nft fail by it. The answer may have a text besides.

// requestSpec is the SPEC of requests that fail, by the function that serves them and what is their header there. A
// dump that has started returns -EINTR, which __netlink_dump_start makes so that netlink_rcv_skb sends no answer: no
// request with it is answered. With -EAGAIN, nfnetlink begins again.
func requestSpec(function, header string) string {
	spec := function + "(" + header + "->nlmsg_type, " + header + "->nlmsg_flags, " + header + "->nlmsg_len, (unsigned long)" + header + ", (long)return, return < 0, return >= -4095, return != -4"
	if function != rtnetlinkFunction && function != genericFunction {
		spec += ", return != -11"
	}
	return spec + ")"
}

// requestSpecs are the SPECs of requests that fail, and of their answers, as far as the kernel has
// the functions. headers has what the header of a request is in each function that serves some.
func (r *Runner) requestSpecs() (specs []string, headers map[string]string) {
	headers = map[string]string{}
	for _, name := range [...]string{rtnetlinkFunction, genericFunction} {
		if _, ok := r.function(name); ok {
			headers[name] = "nlh"
		}
	}
	for _, f := range r.filterFunctions() {
		headers[f.Name] = "info->nlh"
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		specs = append(specs, requestSpec(name, headers[name]))
	}
	if _, ok := r.function(answerFunction); ok && len(specs) > 0 {
		specs = append(specs, answerFunction+"(err < 0, (long)err, "+answerHeader+", "+answerText+")")
	}
	return specs, headers
}

// filterFunctions are those that serve requests of nfnetlink, of the modules that are loaded. If the types of one of
// these modules are malformed there are none, which is logged: all else of why works without.
func (r *Runner) filterFunctions() []kernel.Function {
	found, err := r.Kernel.Select(func(f kernel.Function) bool {
		return slices.ContainsFunc(filterModules[:], func(prefix string) bool { return strings.HasPrefix(f.Module, prefix) })
	})
	if err != nil {
		r.Log.Warn(fmt.Sprintf("requests of nfnetlink are not looked at: %v", err))
		return nil
	}
	return slices.DeleteFunc(found, func(f kernel.Function) bool { return !servesFilter(f.Type) })
}

// servesFilter reports whether a function has the type of the member call of struct nfnl_callback.
func servesFilter(f *btf.Func) bool {
	if f == nil {
		return false
	}
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok || len(proto.Params) != 3 || proto.Params[1].Name != "info" {
		return false
	}
	pointer, ok := btf.UnderlyingType(proto.Params[1].Type).(*btf.Pointer)
	if !ok {
		return false
	}
	s, ok := btf.UnderlyingType(pointer.Target).(*btf.Struct)
	return ok && s.Name == filterInfo
}

// addRequest adds a request that has failed, of which a function has the header.
func (w *watcher) addRequest(e *event.Event, v values, header string) {
	f := Failure{Time: e.Time, PID: e.PID, TID: e.TID, Inner: e.Inner, Comm: comm(e), Number: requestNumber, Errno: -v.number("(long)return"), Function: e.Probe.Func.Name}
	f.request = &request{header: v.number("(unsigned long)" + header), kind: v.number(header + "->nlmsg_type"), flags: v.number(header + "->nlmsg_flags"), len: v.number(header + "->nlmsg_len")}
	w.addCall(f, e)
}

// addAnswer adds an answer. One without a text is that of a request, too.
func (w *watcher) addAnswer(e *event.Event, v values) {
	a := answer{time: e.Time, errno: -v.number("(long)err"), requestPlace: requestPlace{e.TID, v.number(answerHeader)}}
	if text := v.text(answerText); text != nil {
		a.text = *text
	}
	w.keepAnswer(a)
}

// mostAnswers is how many answers are kept at least: other kinds of netlink may send any number.
const mostAnswers = 1 << 14

// keepAnswer keeps an answer, and forgets the oldest of many.
func (w *watcher) keepAnswer(a answer) {
	w.answers = append(w.answers, a)
	if len(w.answers) < 2*mostAnswers {
		return
	}
	old := len(w.answers) - mostAnswers
	for _, a := range w.answers[:old] {
		w.forgotten = max(w.forgotten, a.time)
	}
	w.answers = slices.Delete(w.answers, 0, old)
}

// assignAnswers gives the requests that failed the texts of their answers. Each has the header of its request,
// and the next one is that of another request in the same place. The calls are in the order of time. A
// request whose answer may be forgotten gets none.
func (w *watcher) assignAnswers() {
	slices.SortStableFunc(w.answers, func(x, y answer) int { return cmp.Compare(x.time, y.time) })
	open := map[requestPlace]*Failure{} // until they are answered
	answers := w.answers
	for i := range w.seen.Calls {
		f := &w.seen.Calls[i]
		if f.request == nil || f.Time <= w.forgotten {
			continue
		}
		for ; len(answers) > 0 && answers[0].time < f.Time; answers = answers[1:] {
			answers[0].assign(open)
		}
		open[requestPlace{f.TID, f.request.header}] = f
	}
	for _, a := range answers {
		a.assign(open)
	}
}

// assign gives the text to the request that is answered.
func (a answer) assign(open map[requestPlace]*Failure) {
	if f, ok := open[a.requestPlace]; ok && f.Errno == a.errno {
		f.request.answer = a.text
	}
	delete(open, a.requestPlace)
}
