// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/code"
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
	dst = appendText(dst, "text", p.tails.AppendPassed(nil, e, path))
	dst = append(appendKey(dst, "blocks"), '[')
	for i := range graph.Blocks {
		b := &graph.Blocks[i]
		dst = append(appendComma(dst), '{')
		dst = appendText(appendText(dst, "from", f.Place(b.Start)), "to", f.Place(b.End-1))
		dst = append(appendText(dst, "state", blockStates[path.Way.Blocks[i]]), '}')
	}
	dst = append(appendKey(append(dst, ']'), "decisions"), '[')
	for i := range path.Decisions {
		dst = appendDecision(appendComma(dst), f, graph, &path.Decisions[i])
	}
	dst = append(dst, ']')
	if path.Missing > 0 {
		dst = appendUint(appendUint(dst, "missing", uint64(path.Missing)), "missing_from", uint64(path.Gap))
	}
	return append(appendTrue(dst, "broken", path.Way.Broken > 0), '}')
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
