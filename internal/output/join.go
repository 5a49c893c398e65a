// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
)

// endNote says why half of a call is missing.
func endNote(e calls.End) string {
	switch e {
	case calls.NoEntry:
		return "/* its entry was not recorded */"
	case calls.Open:
		return "/* had not returned by the end */"
	case calls.Evicted:
		return "/* return no longer waited for: too many calls are open, or records were lost */"
	}
	return ""
}

// AppendLoss appends the mark that stands where records are missing.
func (c *Calls) AppendLoss(dst []byte, l event.Loss) []byte {
	return appendMark(dst, l.Cause, l.Count, c.forms.style.colour)
}

// AppendEnd appends nothing: what was lost has been marked.
func (*Calls) AppendEnd(dst []byte, _ *Totals) ([]byte, error) { return dst, nil }

// AppendCall appends a call as one block or line: the values of entry, then those of
// return. The first line is that of the return, if there is one.
func (c *Calls) AppendCall(dst []byte, call *calls.Call) ([]byte, error) {
	start := len(dst)
	last := call.Last()
	dst = append(c.appendHead(dst, last), c.first...)
	shown := false
	for _, e := range [...]*event.Event{call.Entry, call.Return} {
		if e == nil {
			continue
		}
		f, err := c.forms.of(e)
		if err != nil {
			return dst[:start], err
		}
		none := ""
		if e == last {
			none = f.none
		}
		if len(f.fields) == 0 && none == "" {
			continue
		}
		if shown {
			dst = append(dst, c.between...)
		}
		shown = true
		if none != "" {
			dst = append(append(dst, c.forms.style.indent...), none...)
		}
		dst = f.appendFields(dst, e, c.between)
	}
	if shown {
		dst = append(dst, c.last...)
	}
	if !c.forms.style.short {
		dst = c.appendTails(dst, call)
	}
	if note := endNote(call.End); note != "" {
		dst = append(append(append(dst, c.noteIndent()...), note...), c.last...)
	}
	dst = append(dst, c.end...)
	if c.forms.style.short {
		dst = c.fit(dst, start)
		dst = c.appendTails(dst, call)
	}
	return dst, nil
}

// fit cuts the line of a record, from start on, to the terminal.
func (c *Calls) fit(dst []byte, start int) []byte {
	if c.Columns == nil {
		return dst
	}
	width := c.Columns()
	if width == 0 {
		return dst
	}
	c.line = append(c.line[:0], bytes.TrimSuffix(dst[start:], []byte("\n"))...)
	return append(appendFitted(dst[:start], c.line, max(width, leastLine)), '\n')
}

// noteIndent is the text before a note.
func (c *Calls) noteIndent() string {
	if c.forms.style.short {
		return " "
	}
	return fieldIndent
}

// appendTails appends what follows the values of both records.
func (c *Calls) appendTails(dst []byte, call *calls.Call) []byte {
	if c.Tails == nil {
		return dst
	}
	for _, e := range [...]*event.Event{call.Entry, call.Return} {
		if e != nil {
			dst = c.Tails.append(dst, e)
		}
	}
	return dst
}
