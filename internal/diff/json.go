// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"io"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// sides are the names of the two runs.
var sides = [...]string{"good", "bad"}

// WriteJSON writes all differences as JSON, a line each, between a header and an end.
func (r *Result) WriteJSON(w io.Writer) error {
	p := printer{to: w}
	p.text = append(p.text, `{"kind":"header"`...)
	for i, run := range [...]*Run{r.good, r.bad} {
		p.text = append(append(append(p.text, `,"`...), sides[i]...), `":{`...)
		p.member("file", run.Name)
		if run.Kernel != "" {
			p.text = append(p.text, ',')
			p.member("kernel", run.Kernel)
		}
		if run.About != "" {
			p.text = append(p.text, ',')
			p.member("about", run.About)
		}
		p.text = strconv.AppendInt(append(p.text, `,"calls":`...), int64(run.Calls), 10)
		if run.Incomplete {
			p.text = append(p.text, `,"incomplete":true`...)
		}
		p.text = append(p.text, '}')
	}
	p.text = append(p.text, "}\n"...)
	for _, d := range r.Differences {
		if !p.full() {
			break
		}
		p.difference(d)
	}
	p.text = strconv.AppendInt(append(p.text, `{"kind":"end","differences":`...), int64(len(r.Differences)), 10)
	p.text = append(p.text, "}\n"...)
	return p.end()
}

// difference prints the line of a difference.
func (p *printer) difference(d *Difference) {
	p.text = append(append(append(p.text, `{"kind":"`...), d.Kind.String()...), `",`...)
	p.member("function", d.Of.Call().Func)
	p.text = append(p.text, `,"callers":[`...)
	for i, fn := range d.Of.Callers() {
		if i > 0 {
			p.text = append(p.text, ',')
		}
		p.string(fn)
	}
	p.text = append(p.text, ']')
	if d.Name != "" {
		p.text = append(p.text, ',')
		p.member("name", d.Name)
	}
	for i, line := range d.Source {
		switch i {
		case 0:
			p.text = append(p.text, ',')
			p.member("source", line)
			continue
		case 1:
			p.text = append(p.text, `,"inlined_at":[`...)
		default:
			p.text = append(p.text, ',')
		}
		p.string(line)
	}
	if len(d.Source) > 1 {
		p.text = append(p.text, ']')
	}
	for i, side := range sides {
		p.text = append(append(append(p.text, `,"`...), side...), `":`...)
		if d.Texts[i] == "" {
			p.text = append(p.text, "null"...)
		} else {
			p.string(d.Texts[i])
		}
	}
	for i, c := range [...]*Call{d.Of.good, d.Of.bad} {
		if c != nil {
			p.text = append(append(append(p.text, `,"`...), sides[i]...), `_time":`...)
			p.text = strconv.AppendUint(p.text, c.Time, 10)
		}
	}
	if d.AtEntry {
		p.text = append(p.text, `,"at_entry":true`...)
	}
	p.text = append(p.text, "}\n"...)
}

func (p *printer) member(key, value string) {
	p.text = append(append(append(p.text, '"'), key...), `":`...)
	p.string(value)
}

func (p *printer) string(s string) {
	p.text = append(terminal.AppendJSON(append(p.text, '"'), s), '"')
}
