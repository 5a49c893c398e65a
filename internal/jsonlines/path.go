// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/event"
)

// appendPath appends the way that a call took.
func (p *Printer) appendPath(dst []byte, e *event.Event, path *event.Path) []byte {
	if path.Way == nil {
		return appendErrno(dst, "no_path", uint64(path.Errno))
	}
	way := e.Probe.Way
	graph, f := way.Graph(), &way.Code
	dst = append(appendKey(dst, "path"), '{')
	if !p.decisionsOnly {
		dst = appendText(dst, "text", p.tails.AppendPassed(nil, e, path))
		dst = append(appendKey(dst, "blocks"), '[')
		for i := range graph.Blocks {
			b := &graph.Blocks[i]
			dst = append(appendComma(dst), '{')
			dst = appendText(appendText(dst, "from", f.Place(b.Start)), "to", f.Place(b.End-1))
			dst = append(appendText(dst, "state", blockStates[path.Way.Blocks[i]]), '}')
		}
		dst = append(dst, ']')
	}
	dst = append(appendKey(dst, "decisions"), '[')
	for i := range path.Decisions {
		dst = appendDecision(appendComma(dst), f, graph, &path.Decisions[i])
	}
	dst = append(dst, ']')
	if path.Missing > 0 {
		dst = appendUint(appendUint(dst, "missing", uint64(path.Missing)), "missing_from", uint64(path.Gap))
	}
	if !p.decisionsOnly {
		dst = appendDecided(dst, e, path)
	}
	return append(appendTrue(dst, "broken", path.Way.Broken > 0), '}')
}

// appendDecided appends what decided that the call failed.
func appendDecided(dst []byte, e *event.Event, path *event.Path) []byte {
	v, ok := decide.Of(e, path)
	if !ok {
		return dst
	}
	f := &e.Probe.Way.Code
	dst = append(appendKey(dst, "decided"), '{')
	if name := errno.Name(uint64(-v.Error)); v.Error < 0 && name != "" {
		dst = appendText(dst, "error", name)
	}
	if v.Decision >= 0 {
		dst = appendText(dst, "at", f.Place(path.Decisions[v.Decision].Site.Addr))
	}
	if v.Holds != "" {
		dst = appendTrue(appendText(appendText(dst, "condition", v.Holds), "needed", v.Needed), "several", v.Several)
	}
	if len(v.Or) > 0 {
		dst = appendList(dst, "or", v.Or)
	}
	if v.Called != "" {
		dst = appendText(dst, "called", v.Called)
	}
	dst = appendTrue(dst, "indirect", v.Indirect)
	if v.Chosen != 0 {
		dst = appendText(dst, "made_by", f.Place(v.Chosen))
	}
	if len(v.Lines) > 0 {
		dst = append(appendKey(dst, "source"), '[')
		for i := range v.Lines {
			dst = appendText(append(appendComma(dst), '{'), "place", v.Lines[i].Place)
			if v.Lines[i].Inlined != "" {
				dst = appendText(dst, "inlined", v.Lines[i].Inlined)
			}
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	if v.Text != "" {
		dst = appendText(dst, "line", v.Text)
	}
	return append(appendTrue(dst, "unknown", v.Unsure), '}')
}

// blockStates are the names of what is known of a block.
var blockStates = [...]string{code.NotPassed: "not passed", code.Passed: "passed", code.Unsure: "unknown"}

// appendDecision appends which way a conditional jump went.
func appendDecision(dst []byte, f *code.Function, g *code.Graph, d *event.Decision) []byte {
	dst = appendText(append(dst, '{'), "at", f.Place(d.Site.Addr))
	if d.Site.Compare != 0 && d.Site.Compare != d.Site.Addr {
		dst = appendText(dst, "compare", f.Text(d.Site.Compare))
	}
	dst = append(appendKey(dst, "operands"), '[')
	for i, o := range d.Site.Operands {
		dst = appendText(append(appendComma(dst), '{'), "name", o.Text)
		if i < len(d.Values) && !d.Unreadable[i] {
			dst = appendText(dst, "value", "0x"+strconv.FormatUint(d.Values[i], 16))
		}
		dst = append(dst, '}')
	}
	dst = appendText(append(dst, ']'), "jump", f.Mnemonic(d.Site.Addr))
	if d.Taken {
		dst = appendText(dst, "to", f.Place(g.JumpTarget(d.Site.Block)))
	}
	return append(dst, '}')
}
