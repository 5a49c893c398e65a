// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

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
}

// NewCalls returns a printer of the calls view.
func NewCalls(names Names) *Calls {
	return &Calls{forms: newForms(callStyle(names)),
		first: "\n", between: ",\n\n", last: "\n\n", end: ");\n"}
}

// NewCompactCalls returns a printer that writes a line for each record. Each value takes at
// most width bytes.
//
//	ping     3833    1    251523.617250 ip_send_skb(return = 0)
func NewCompactCalls(names Names, width int) *Calls {
	s := lineStyle(names, width)
	s.named = true
	return &Calls{forms: newForms(s), between: ", ", end: ")\n"}
}

// Colour marks text by what it means, for a terminal.Writer with colours.
func (c *Calls) Colour() { c.forms.style.colour = true }

// AppendHeader appends the line with the names of the columns.
func (c *Calls) AppendHeader(dst []byte) ([]byte, error) {
	return append(fmt.Appendf(dst, "%16s %7s %4s %16s %s", "TASK", "PID", "CPU#", "TIMESTAMP", "FUNCTION"), "\n\n"...), nil
}

// appendHead appends the first line of a block.
func (c *Calls) appendHead(dst []byte, e *event.Event) []byte {
	var text [32]byte
	comm := e.Comm[:]
	if end := bytes.IndexByte(comm, 0); end >= 0 {
		comm = comm[:end]
	}
	dst = append(appendTask(dst, comm, 16), ' ')
	dst = append(appendPadded(dst, appendIDs(text[:0], e.Inner, []uint32{e.PID}, []uint32{e.Inner.PID}), 7), ' ')
	dst = append(appendPadded(dst, strconv.AppendUint(text[:0], uint64(e.CPU), 10), 4), ' ')
	dst = append(appendPadded(dst, appendSeconds(text[:0], e.Time), 16), ' ')
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

// appendTask appends a task's name, right-aligned in width columns. The task chooses its
// name, so it is escaped.
func appendTask(dst, comm []byte, width int) []byte {
	start := len(dst)
	dst = terminal.AppendName(dst, comm)
	missing := width - utf8.RuneCount(dst[start:])
	if missing <= 0 {
		return dst
	}
	end := len(dst)
	dst = appendBlanks(dst, missing)
	copy(dst[start+missing:], dst[start:end])
	appendBlanks(dst[:start], missing)
	return dst
}

// appendPadded appends s right-aligned in width columns.
func appendPadded(dst, s []byte, width int) []byte {
	return append(appendBlanks(dst, width-len(s)), s...)
}

// appendSeconds appends nanoseconds as seconds to the microsecond.
func appendSeconds(dst []byte, ns uint64) []byte {
	dst = append(strconv.AppendUint(dst, ns/1e9, 10), '.')
	micros := ns % 1e9 / 1e3
	for unit := uint64(1e5); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(micros/unit%10))
	}
	return dst
}
