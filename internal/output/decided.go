// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// appendDecided appends what decided a call that failed.
func appendDecided(dst []byte, e *event.Event, p *event.Path) []byte {
	v, ok := decide.Of(e, p)
	if !ok {
		return dst
	}
	var d *event.Decision
	if v.Decision >= 0 {
		d = &p.Decisions[v.Decision]
	}
	for _, line := range VerdictText(e.Probe, d, &v) {
		dst = append(append(append(dst, rowIndent...), line...), '\n')
	}
	return dst
}

// VerdictText returns a verdict in words, by lines. d is the decision; nil if there is none.
func VerdictText(p *plan.Probe, d *event.Decision, v *decide.Verdict) (lines []string) {
	f := &p.Way.Code
	if v.Chosen != 0 {
		lines = append(lines, fmt.Sprintf("the result is made%s by %s at %s, without a jump that tells why", sourceText(v.Lines), f.Mnemonic(v.Chosen), instruction(p, v.Chosen)))
		return appendSource(lines, v)
	}
	switch {
	case v.Called != "":
		lines = append(lines, "it returns what "+string(symname.Append(nil, v.Called, ""))+"() has returned"+errorText(v.Error))
	case v.Indirect:
		lines = append(lines, "it returns what a function has returned that it called through a pointer"+errorText(v.Error))
	}
	if d == nil {
		switch {
		case v.Unsure && len(lines) == 0:
			lines = append(lines, "which decision led to the error is not known")
		case !v.Unsure && len(lines) == 0:
			lines = append(lines, "no decision of it could have led elsewhere")
		}
		return lines
	}
	at := sourceText(v.Lines)
	switch {
	case v.Holds == "" && at == "":
		lines = append(lines, "decided at "+instruction(p, d.Site.Addr)+", see there")
	case v.Holds == "":
		lines = append(lines, "decided"+at+", see "+f.Place(d.Site.Addr))
	case at == "":
		lines = append(lines, "decided: "+v.Holds+", at "+instruction(p, d.Site.Addr), needed(v))
	default:
		lines = append(lines, "decided: "+v.Holds+","+at, needed(v))
	}
	if len(v.Or) > 0 {
		lines = append(lines, orText(v.Or))
	}
	lines = appendSource(lines, v)
	if v.Later != nil && v.Later.Holds != "" {
		lines = append(lines, "tested after that: "+v.Later.Holds, needed(v.Later))
	}
	return lines
}

// needed says what it would have taken.
func needed(v *decide.Verdict) string {
	if v.Several {
		return "it takes: " + v.Needed + ", or one of the values that it was compared with before"
	}
	return "it takes: " + v.Needed
}

// appendSource appends the text of the source.
func appendSource(lines []string, v *decide.Verdict) []string {
	if v.Text == "" {
		return lines
	}
	return append(lines, "source: "+string(terminal.AppendName(nil, v.Text)))
}

// instruction writes an instruction with its function: "array_map_alloc_check+0x2d".
func instruction(p *plan.Probe, addr uint64) string {
	return string(terminal.AppendName(nil, p.Func.Name)) + p.Way.Code.Place(addr)
}

// sourceText writes where something is in the source: " at kernel/a.c:1:2 (in b, inlined at
// kernel/c.c:3:4)". It is empty if that is not known.
func sourceText(lines []plan.Line) string {
	if len(lines) == 0 {
		return ""
	}
	text := " at " + string(terminal.AppendName(nil, lines[0].Place))
	for i := range lines[:len(lines)-1] {
		text += " (in " + string(terminal.AppendName(nil, lines[i].Inlined)) + ", inlined at " + string(terminal.AppendName(nil, lines[i+1].Place)) + ")"
	}
	return text
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

// errorText writes an error that is returned, if it is known.
func errorText(v int32) string {
	if name := errno.Name(uint64(-v)); v < 0 && name != "" {
		return ", -" + name
	}
	return ""
}
