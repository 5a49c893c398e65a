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

// addAnswer adds an answer that has a text.
func (w *watcher) addAnswer(e *event.Event, v values) {
	if text := v.text(answerText); text != nil && *text != "" {
		w.answers = append(w.answers, answer{e.Time, -v.number("(long)err"), e.TID, *text})
	}
}

// assignAnswers gives the requests that failed the texts of their answers: each is sent next in its
// thread. The calls are in the order of time.
func (w *watcher) assignAnswers() {
	slices.SortStableFunc(w.answers, func(x, y answer) int { return cmp.Compare(x.time, y.time) })
	for _, a := range w.answers {
		for i := len(w.seen.Calls) - 1; i >= 0; i-- {
			f := &w.seen.Calls[i]
			if f.request == nil || f.TID != a.tid || f.Time > a.time {
				continue
			}
			if f.Errno == a.errno && f.request.answer == "" {
				f.request.answer = a.text
			}
			break
		}
	}
}
