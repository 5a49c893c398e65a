// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Verdict returns what decided what a call has returned; ok is false if it did not fail, or
// that is not known.
func (t *Tails) Verdict(e *event.Event, p *event.Path) (v decide.Verdict, ok bool) {
	names, ok := t.Kernel.(decide.Names)
	if !ok {
		return v, false
	}
	v, ok = decide.Of(e.Probe, p, names)
	return v, ok && (v.Called != "" || v.Indirect || v.Chosen != 0 || v.Made && v.Value < 0 && v.Value >= -mostErrno)
}

// mostErrno is MAX_ERRNO of linux/err.h.
const mostErrno = 4095

// appendDecided appends what decided a call that failed.
func (t *Tails) appendDecided(dst []byte, e *event.Event, p *event.Path) []byte {
	v, ok := t.Verdict(e, p)
	if !ok {
		return dst
	}
	for _, line := range t.verdictText(e, p, &v) {
		dst = append(append(append(dst, rowIndent...), line...), '\n')
	}
	return dst
}

// verdictText returns a verdict in words, by lines.
func (t *Tails) verdictText(e *event.Event, p *event.Path, v *decide.Verdict) (lines []string) {
	f := &e.Probe.Way.Code
	if v.Chosen != 0 {
		return []string{fmt.Sprintf("the result is made at %s by %s, without a jump that tells why", f.Place(v.Chosen), f.Text(v.Chosen))}
	}
	if v.Called != "" {
		lines = append(lines, string(terminal.AppendName([]byte("it returned what it got from "), v.Called))+"()")
	}
	if v.Indirect {
		lines = append(lines, "it returned what it got from a function that it called through a pointer")
	}
	if v.Decision < 0 {
		if v.Made && v.Unsure {
			return []string{fmt.Sprintf("it returns %s; which decision led there is not known", errorText(v.Value))}
		}
		if v.Made {
			lines = append(lines, fmt.Sprintf("it returns %s, and no decision leads elsewhere", errorText(v.Value)))
		}
		return lines
	}
	d := &p.Decisions[v.Decision]
	at := t.place(e, d)
	if v.Holds == "" {
		lines = append(lines, "decided at "+at+", see "+f.Place(d.Site.Addr))
	} else {
		lines = append(lines, "decided at "+at+": "+v.Holds, "it takes: "+v.Needed)
		if len(v.Or) > 0 {
			lines = append(lines, orText(v.Or))
		}
	}
	if v.Line != "" {
		lines = append(lines, "source: "+string(terminal.AppendName(nil, v.Line)))
	}
	return lines
}

// orText names what else a place in a union is.
func orText(or []string) string {
	const most = 3
	text := "in a union, where it can also be "
	for i, name := range or[:min(most, len(or))] {
		if i > 0 {
			text += ", "
		}
		text += string(terminal.AppendName(nil, name))
	}
	if n := len(or) - most; n > 0 {
		text += " or " + strconv.Itoa(n) + " more"
	}
	return text
}

// errorText writes an error that is returned.
func errorText(v int64) string {
	if name := errno.Name(uint64(-v)); v < 0 && name != "" {
		return "-" + name
	}
	return strconv.FormatInt(v, 10)
}

// place returns where a decision is: its source line if that is known, else its address.
func (t *Tails) place(e *event.Event, d *event.Decision) string {
	t.frames = t.Kernel.Frames(t.frames[:0], d.Site.Addr, false)
	if source := t.frames[0].AppendSource(nil); len(source) > 0 {
		return string(source)
	}
	return string(terminal.AppendName(nil, e.Probe.Func.Name)) + e.Probe.Way.Code.Place(d.Site.Addr)
}
