// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Calls prints the calls view: a block for each record, in the columns of the original
// ksnoop.
//
//	ping     3833    1    251523.617250 ip_send_skb(
//	        return = (int)0
//
//	);
type Calls struct {
	forms forms
	// Text before the first value, between values, after the last value, and at the end.
	first, between, last, end string
	// Tails prints stacks and branches. It is nil if records have none.
	Tails *Tails
	// Columns returns the width of the terminal that lines of the compact form are cut to; 0
	// means none. It may be nil.
	Columns func() int
	line    []byte // of a record, before it is cut; reused
	lead    lead
}

// NewCalls returns a printer of the calls view.
func NewCalls(names Names) *Calls {
	return &Calls{forms: newForms(callStyle(names)), lead: lead{columns: usualColumns(), names: names},
		first: "\n", between: ",\n\n", last: "\n\n", end: ");\n"}
}

// NewCompactCalls returns a printer that writes a line for each record. Each value takes at
// most width bytes.
//
//	ping     3833    1    251523.617250 ip_send_skb(return = 0)
func NewCompactCalls(names Names, width int) *Calls {
	s := lineStyle(names, width)
	s.named = true
	return &Calls{forms: newForms(s), lead: lead{columns: usualColumns(), names: names}, between: ", ", end: ")\n"}
}

// Colour marks text by what it means, for a terminal.Writer with colours.
func (c *Calls) Colour() { c.forms.style.colour = true }

// SetColumns has the lines of calls of a run begin with other columns than usual.
func (c *Calls) SetColumns(list []Column, run *Run) { c.lead.columns, c.lead.run = list, *run }

// AppendHeader appends the line with the names of the columns.
func (c *Calls) AppendHeader(dst []byte) ([]byte, error) {
	return append(c.lead.appendHeading(dst), "FUNCTION\n\n"...), nil
}

// appendHead appends the first line of a block.
func (c *Calls) appendHead(dst []byte, e *event.Event) []byte {
	dst = c.lead.append(dst, e)
	if !c.forms.style.colour {
		return append(terminal.AppendName(dst, e.Probe.Name), '(')
	}
	dst = terminal.AppendName(terminal.AppendStyle(dst, terminal.Strong), e.Probe.Name)
	return append(terminal.AppendStyle(dst, terminal.Plain), '(')
}

// appendFields appends all values of a record.
func (f *form) appendFields(dst []byte, e *event.Event, between string) []byte {
	for i := range f.fields {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = f.fields[i].append(dst, e)
	}
	return dst
}
