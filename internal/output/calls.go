// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// Calls prints the calls view: one block for each record, in the columns of
// the original ksnoop.
//
//	ping     3833    1    251523.617250 ip_send_skb(
//	        return = (int)0
//
//	);
type Calls struct {
	forms map[*plan.Record]*form
}

// NewCalls returns a printer of the calls view.
func NewCalls() *Calls { return &Calls{forms: map[*plan.Record]*form{}} }

// AppendHeader appends the names of the columns.
func (c *Calls) AppendHeader(dst []byte) []byte {
	return append(fmt.Appendf(dst, "%16s %7s %4s %16s %s", "TASK", "PID", "CPU#", "TIMESTAMP", "FUNCTION"), "\n\n"...)
}

// AppendEvent appends one call's entry, return, or both.
func (c *Calls) AppendEvent(dst []byte, e *event.Event) ([]byte, error) {
	f, err := c.form(e)
	if err != nil {
		return dst, err
	}
	dst = appendHead(dst, e)
	dst = f.appendFields(dst, e)
	if len(f.fields) > 0 {
		dst = append(dst, "\n\n"...)
	}
	return append(dst, ");\n"...), nil
}

// appendHead appends a block's first line.
func appendHead(dst []byte, e *event.Event) []byte {
	dst = appendPadded(dst, e.CommString(), 16)
	dst = append(dst, ' ')
	dst = appendPadded(dst, strconv.FormatUint(uint64(e.PID), 10), 7)
	dst = append(dst, ' ')
	dst = appendPadded(dst, strconv.FormatUint(uint64(e.CPU), 10), 4)
	dst = append(dst, ' ')
	dst = appendPadded(dst, seconds(e.Time), 16)
	dst = append(dst, ' ')
	dst = append(dst, e.Probe.Func.Name...)
	return append(dst, "(\n"...)
}

func (f *form) appendFields(dst []byte, e *event.Event) []byte {
	for i := range f.fields {
		if i > 0 {
			dst = append(dst, ",\n\n"...)
		}
		dst = f.fields[i].append(dst, e)
	}
	return dst
}

func (c *Calls) form(e *event.Event) (*form, error) {
	if f, ok := c.forms[e.Record]; ok {
		return f, nil
	}
	f, err := newForm(e.Probe, e.Record)
	if err != nil {
		return nil, fmt.Errorf("printing %s: %w", e.Probe.Func.Name, err)
	}
	c.forms[e.Record] = f
	return f, nil
}

// appendPadded appends s right-aligned in width columns. What a terminal would
// act upon is replaced: a task chooses its own name.
func appendPadded(dst []byte, s string, width int) []byte {
	for range width - len(s) {
		dst = append(dst, ' ')
	}
	for _, b := range []byte(s) {
		if b < ' ' || b >= 0x7f {
			b = '?'
		}
		dst = append(dst, b)
	}
	return dst
}

// seconds writes nanoseconds as seconds to the microsecond.
func seconds(ns uint64) string {
	return fmt.Sprintf("%d.%06d", ns/1e9, ns%1e9/1e3)
}
