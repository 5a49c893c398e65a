// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A remote is a span that the traced program is in: another program exports it.
type remote struct {
	trace [16]byte
	span  [8]byte
}

// An outcome is what became of the search for the span that a session or a call belongs to.
type outcome uint8

const (
	child      outcome = iota // it was found
	absent                    // no such value was captured of this function
	unreadable                // its memory could not be read
	empty                     // the program is in no span: there are zeros or no text
	malformed                 // what is there is no trace context
	unknown                   // the program was not looked at yet
	deep                      // there was more to search than is searched
	interrupt                 // an interrupt is of no program
	unsampled                 // the span is not exported by its program: it would be missing as a parent
	outcomes
)

// outcomeTexts say why a span is a root.
var outcomeTexts = [outcomes]string{absent: "without the value of --parent", unreadable: "unreadable", unknown: "of programs seen for the first time", deep: "with more on the stack, or in the environment, than is searched", interrupt: "of interrupts",
	empty:     "no span at the time",
	malformed: "no trace context", unsampled: "of traces that are not sampled"}

// Parents counts what became of the search for parents. It may be read at any time.
type Parents struct{ n [outcomes]atomic.Uint64 }

// Any reports whether any were looked for.
func (p *Parents) Any() bool {
	for o := range p.n {
		if p.n[o].Load() > 0 {
			return true
		}
	}
	return false
}

// String tells how many have a parent, and why the others have none.
func (p *Parents) String() string {
	var roots uint64
	var why []string
	for o := child + 1; o < outcomes; o++ {
		if n := p.n[o].Load(); n > 0 {
			roots += n
			why = append(why, fmt.Sprintf("%d %s", n, outcomeTexts[o]))
		}
	}
	text := fmt.Sprintf("%d in spans of their programs", p.n[child].Load())
	if roots > 0 {
		text += fmt.Sprintf(", %d in none (%s)", roots, strings.Join(why, ", "))
	}
	return text
}

// sizeRaw is the size of a trace context in memory: the number of the trace and that of the span.
const sizeRaw = 16 + 8

// decodeContext reads a trace context in memory: the 24 bytes of both numbers, or a text.
func decodeContext(raw []byte) (r remote, o outcome) {
	if len(raw) == sizeRaw {
		copy(r.trace[:], raw)
		copy(r.span[:], raw[len(r.trace):])
		if r.trace == [16]byte{} || r.span == [8]byte{} {
			return r, empty
		}
		return r, child
	}
	return decodeText(raw)
}

// decodeText reads the header traceparent of W3C's Trace Context: version 00, or a later one, which begins the same.
func decodeText(raw []byte) (r remote, o outcome) {
	text := strings.TrimRight(string(raw), "\x00")
	if text == "" {
		return r, empty
	}
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < size || text[2] != '-' || text[35] != '-' || text[52] != '-' || text[:2] == "ff" || len(text) > size && (text[:2] == "00" || text[size] != '-') {
		return r, malformed
	}
	if text[:size] != strings.ToLower(text[:size]) {
		return r, malformed
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], text[:2]}, {r.trace[:], text[3:35]}, {r.span[:], text[36:52]}, {flags[:], text[53:size]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return r, malformed
		}
	}
	switch {
	case r.trace == [16]byte{} || r.span == [8]byte{}:
		return r, malformed
	case flags[0]&1 == 0:
		return r, unsampled
	}
	return r, child
}

// outcomesOf are why the engine found nothing.
var outcomesOf = [...]outcome{bpf.LackSpan: empty, bpf.LackUnknown: unknown, bpf.LackUnreadable: unreadable, bpf.LackDeep: deep, bpf.LackInterrupt: interrupt, bpf.LackUnsampled: unsampled}

// found returns the span that the engine has found.
func found(f *bpf.Parent) (remote, outcome) {
	switch f.Kind {
	case bpf.ParentSpan:
		return decodeContext(f.Bytes())
	case bpf.ParentText:
		if text := f.Bytes(); text != nil {
			return decodeText(text)
		}
		return remote{}, malformed
	}
	if int(f.Why) < len(outcomesOf) {
		return remote{}, outcomesOf[f.Why]
	}
	return remote{}, empty
}

// parent looks for the span that a session, or a call, is in: in the values that were captured with it at entry or at
// return or, without --parent EXPR, in what the engine has found. It counts what became of that.
func (p *Printer) parent(engine *bpf.Parent, events ...*event.Event) (r remote, ok bool) {
	var o outcome
	switch {
	case p.options.Parent != "":
		r, o = p.context(events)
	case engine != nil:
		r, o = found(engine)
	default:
		return r, false
	}
	if p.options.Parents != nil {
		p.options.Parents.n[o].Add(1)
	}
	return r, o == child
}

func (p *Printer) context(events []*event.Event) (remote, outcome) {
	for _, e := range events {
		if e == nil || e.Record == nil {
			continue
		}
		fields, err := p.contexts.Of(e)
		if err != nil {
			continue // AppendSession and AppendCall say so
		}
		for _, f := range fields {
			if f.Label() != p.options.Parent {
				continue
			}
			_, target := f.Slots()
			if target == nil {
				return remote{}, absent
			}
			raw, ok := e.Bytes(target)
			if !ok {
				return remote{}, unreadable
			}
			raw, cut := f.Content(raw)
			if cut {
				return remote{}, malformed
			}
			if _, text := target.Term.(*expr.Text); text {
				return decodeText(raw)
			}
			return decodeContext(raw)
		}
	}
	return remote{}, absent
}

// CheckParent returns an error unless a plan captures the value that Parent says, as text or bytes.
func (o *Options) CheckParent(p *plan.Plan) error {
	captured := false
	for _, probe := range p.Probes {
		for _, it := range probe.Items {
			for _, c := range it.Captures {
				if c.Label != o.Parent {
					continue
				}
				captured = true
				if b, ok := c.Target.(*expr.Buffer); ok && b.Max < sizeRaw {
					return fmt.Errorf("%s is too short: a trace context has %d bytes, or is a text", o.Parent, sizeRaw)
				}
				if c.Target != nil {
					return nil
				}
			}
		}
	}
	if captured {
		return fmt.Errorf("%s is a number: a trace context is a text, as ustr(p), or 24 bytes, as buf(user(p), 24)", o.Parent)
	}
	return fmt.Errorf("%s is not among the values that were captured", o.Parent)
}
