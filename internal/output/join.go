// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/session"
)

// endNote says why half of a call is not there.
func endNote(e session.End) string {
	switch e {
	case session.NoEntry:
		return "/* its entry was not recorded */"
	case session.Open:
		return "/* had not returned by the end */"
	case session.Evicted:
		return "/* return no longer waited for: too many calls are open */"
	}
	return ""
}

// AppendCall appends a call as one block: what was captured at entry, then what
// was captured at return. The first line is that of the return, if there is one.
func (c *Calls) AppendCall(dst []byte, call *session.Call) ([]byte, error) {
	start := len(dst)
	last := call.Return
	if last == nil {
		last = call.Entry
	}
	dst = appendHead(dst, last)
	fields := 0
	for _, e := range [...]*event.Event{call.Entry, call.Return} {
		if e == nil {
			continue
		}
		f, err := c.form(e)
		if err != nil {
			return dst[:start], err
		}
		if fields > 0 && len(f.fields) > 0 {
			dst = append(dst, ",\n\n"...)
		}
		dst = f.appendFields(dst, e)
		fields += len(f.fields)
	}
	if fields > 0 {
		dst = append(dst, "\n\n"...)
	}
	if c.Tails != nil {
		for _, e := range [...]*event.Event{call.Entry, call.Return} {
			if e != nil {
				dst = c.Tails.append(dst, e)
			}
		}
	}
	if note := endNote(call.End); note != "" {
		dst = append(append(append(dst, fieldIndent...), note...), "\n\n"...)
	}
	return append(dst, ");\n"...), nil
}
