// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/event"
)

// A request by netlink is answered with a message. If the message is an error, no system call has
// failed. The function that serves requests of rtnetlink returns that error, so it stands for the
// one that serves a system call: ip and tc fail by it. The answer may have a text besides.

// requestSpec is the SPEC of requests that fail. A dump that has started returns -EINTR, which
// __netlink_dump_start makes so that netlink_rcv_skb sends no answer: no request with it is answered.
const requestSpec = requestFunction + "(nlh->nlmsg_type, nlh->nlmsg_flags, nlh->nlmsg_len, (long)return, return < 0, return >= -4095, return != -4)"

// requestSpecs are the SPECs of requests that fail, and of their answers, as far as the kernel has
// the functions.
func (r *Runner) requestSpecs() (specs []string) {
	if _, ok := r.function(requestFunction); !ok {
		return nil
	}
	specs = append(specs, requestSpec)
	if _, ok := r.function(answerFunction); ok {
		specs = append(specs, answerFunction+"(err < 0, (long)err, "+answerText+")")
	}
	return specs
}

// addRequest adds a request that has failed.
func (w *watcher) addRequest(e *event.Event, v values) {
	f := Failure{Time: e.Time, PID: e.PID, TID: e.TID, Comm: comm(e), Number: requestNumber, Errno: -v.number("(long)return"), Function: requestFunction}
	f.request = &request{kind: v.number("nlh->nlmsg_type"), flags: v.number("nlh->nlmsg_flags"), len: v.number("nlh->nlmsg_len")}
	w.addCall(f, e)
}

// addAnswer adds an answer. One without a text is that of a request, too.
func (w *watcher) addAnswer(e *event.Event, v values) {
	a := answer{time: e.Time, errno: -v.number("(long)err"), tid: e.TID}
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

// assignAnswers gives the requests that failed the texts of their answers: each is sent next in its
// thread. Those of other kinds of netlink are sent by the same function, later. The calls are in the
// order of time. A request whose answer may be forgotten gets none: the next that is kept is another's.
func (w *watcher) assignAnswers() {
	slices.SortStableFunc(w.answers, func(x, y answer) int { return cmp.Compare(x.time, y.time) })
	asked := map[uint32]*Failure{} // by thread: the last request, until it is answered
	answers := w.answers
	for i := range w.seen.Calls {
		f := &w.seen.Calls[i]
		if f.request == nil || f.Time <= w.forgotten {
			continue
		}
		for ; len(answers) > 0 && answers[0].time < f.Time; answers = answers[1:] {
			answers[0].assign(asked)
		}
		asked[f.TID] = f
	}
	for _, a := range answers {
		a.assign(asked)
	}
}

// assign gives the text to the request that its thread has made last, if that is not answered.
func (a answer) assign(asked map[uint32]*Failure) {
	if f, ok := asked[a.tid]; ok && f.Errno == a.errno {
		f.request.answer = a.text
	}
	delete(asked, a.tid)
}
