// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"io"
	"strings"

	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Marks of lines: what both runs have, what only one has.
const (
	markBoth = ' '
	markGood = '-'
	markBad  = '+'
)

// AppendFirst appends the first difference, and the first one that is nothing a call was given; nothing if there are
// none.
func (r *Result) AppendFirst(dst []byte) []byte {
	if len(r.Differences) == 0 {
		return dst
	}
	first := r.Differences[0]
	dst = r.appendDifference(append(dst, "first difference: "...), first)
	if d := r.Done(); d != nil && d != first {
		dst = r.appendDifference(append(dst, "first in what was done: "...), d)
	}
	return dst
}

// appendDifference appends a difference on a line, and the calls around it on another.
func (r *Result) appendDifference(dst []byte, d *Difference) []byte {
	good, bad := terminal.Name(r.good.Name), terminal.Name(r.bad.Name)
	texts := [2]string{terminal.Name(d.Texts[0]), terminal.Name(d.Texts[1])}
	for i := range texts {
		if texts[i] == "" {
			texts[i] = "nothing"
		}
	}
	fn := terminal.Name(d.Func())
	switch d.Kind {
	case KindCall:
		name, where := terminal.Name(d.Of.Call().Func), good
		if d.Of.good == nil {
			where = bad
		}
		if fn == "" {
			dst = fmt.Appendf(dst, "%s is called in %s only\n", name, where)
		} else {
			dst = fmt.Appendf(dst, "%s calls %s in %s only\n", fn, name, where)
		}
	case KindResult:
		dst = fmt.Appendf(dst, "%s returned %s in %s, %s in %s\n", fn, texts[0], good, texts[1], bad)
	case KindWay:
		dst = fmt.Appendf(dst, "%s, %s: %s in %s, %s in %s\n", fn, terminal.Name(d.place()), texts[0], good, texts[1], bad)
	default:
		dst = fmt.Appendf(dst, "%s(%s) is %s in %s, %s in %s\n", fn, terminal.Name(d.Name), texts[0], good, texts[1], bad)
	}
	for i, fn := range d.Of.Callers() {
		separator := " > "
		if i == 0 {
			separator = "    in "
		}
		dst = append(append(dst, separator...), terminal.Name(fn)...)
	}
	if d.Of.caller != nil {
		dst = append(dst, '\n')
	}
	return dst
}

// place is the name of a value, or where ways part.
func (d *Difference) place() string {
	if len(d.Source) == 0 {
		return d.Name
	}
	return strings.Join(d.Source, ", inlined at ") + ", " + d.Name
}

// WriteText writes all differences, with the calls around them: lines that only the good run has begin with -, those of
// the bad run with +.
func (r *Result) WriteText(w io.Writer) error {
	if len(r.Differences) == 0 {
		return nil
	}
	p := printer{to: w}
	p.text = r.good.appendName(append(p.text, "\n--- "...))
	p.text = append(r.bad.appendName(append(p.text, "\n+++ "...)), '\n')
	for i := range r.parts {
		part := &r.parts[i]
		if alike(part.Calls) {
			continue
		}
		p.text = append(p.text, "@@ "...)
		p.text = appendThread(p.text, part.good)
		if part.good != nil && part.bad != nil {
			p.text = append(p.text, ", "...)
		}
		p.text = append(appendThread(p.text, part.bad), " @@\n"...)
		p.nodes(part.Calls, 0)
	}
	return p.end()
}

func (r *Run) appendName(dst []byte) []byte {
	dst = terminal.AppendName(dst, r.Name)
	if r.About != "" {
		dst = terminal.AppendName(append(dst, ": "...), r.About)
	}
	return dst
}

func alike(nodes []*Node) bool {
	for _, n := range nodes {
		if !n.alike {
			return false
		}
	}
	return true
}

func appendThread(dst []byte, t *thread) []byte {
	if t == nil {
		return dst
	}
	return fmt.Appendf(dst, "%s %d/%d", terminal.Name(t.Comm), t.TID, t.PID)
}

// mostIndent is how many levels are indented.
const mostIndent = 40

// line begins a line.
func (p *printer) line(mark byte, depth int) {
	p.text = append(append(append(p.text, mark), ' '), strings.Repeat("  ", min(depth, mostIndent))...)
}

// call prints a call and its result.
func (p *printer) call(mark byte, depth int, c *Call) {
	p.line(mark, depth)
	p.text = terminal.AppendName(p.text, c.Func)
	switch {
	case !c.Finished:
		p.text = append(p.text, ", no return"...)
	case c.Result != "":
		p.text = terminal.AppendName(append(p.text, " = "...), c.Result)
	}
	p.text = append(p.text, '\n')
}

// nodes prints calls of one caller.
func (p *printer) nodes(nodes []*Node, depth int) {
	same := 0
	for i, n := range nodes {
		if !p.full() {
			return
		}
		switch {
		case n.alike:
			if same += n.good.size; i+1 < len(nodes) && nodes[i+1].alike {
				continue
			}
			p.line(markBoth, depth)
			p.text = fmt.Appendf(p.text, "... %d alike\n", same)
			same = 0
		case n.bad == nil:
			p.calls(n.good, markGood, depth)
		case n.good == nil:
			p.calls(n.bad, markBad, depth)
		default:
			p.node(n, depth)
		}
	}
}

// calls prints a call that one run has, and all below it.
func (p *printer) calls(c *Call, mark byte, depth int) {
	p.call(mark, depth, c)
	for _, below := range c.Calls {
		if !p.full() {
			return
		}
		p.calls(below, mark, depth+1)
	}
}

// node prints what differs between two calls. If they returned something else, both results follow
// what was done before.
func (p *printer) node(n *Node, depth int) {
	returns := resultText(n.good) != resultText(n.bad)
	switch {
	case !returns:
		p.call(markBoth, depth, n.good)
	case len(n.Differences) > 1 || !alike(n.Calls):
		p.line(markBoth, depth)
		p.text = append(terminal.AppendName(p.text, n.good.Func), '\n')
	}
	p.values(n, depth+1)
	if !alike(n.Calls) {
		p.nodes(n.Calls, depth+1)
	}
	if returns {
		p.call(markGood, depth, n.good)
		p.call(markBad, depth, n.bad)
	}
}

// mostValues is how many values of a call are shown: one byte of a union may be in very many.
const mostValues = 8

// values prints the values that differ, and where the ways part.
func (p *printer) values(n *Node, depth int) {
	shown := 0
	for _, d := range n.Differences {
		if d.Kind == KindResult {
			continue
		}
		if d.Kind == KindValue {
			if shown++; shown > mostValues {
				continue
			}
		}
		separator := " = "
		if d.Kind == KindWay {
			separator = ": "
		}
		for side, mark := range [...]byte{markGood, markBad} {
			if d.Texts[side] == "" {
				continue
			}
			p.line(mark, depth)
			p.text = terminal.AppendName(append(p.text, "› "...), d.place())
			p.text = append(terminal.AppendName(append(p.text, separator...), d.Texts[side]), '\n')
		}
	}
	if more := shown - mostValues; more > 0 {
		p.line(markBoth, depth)
		p.text = fmt.Appendf(p.text, "... and %s\n", plural.Of(more, "more value{s}"))
	}
}
