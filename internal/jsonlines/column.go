// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"cmp"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/layout"
)

// A column says how one value of the records of one layout is written.
type column struct {
	field  output.Field
	key    string // the expression as the text of a JSON string
	reason string // why it cannot be read, if it cannot

	atReturn bool // it is not known before the call returns
	plain    bool // it is the result, and nothing else
	again    bool // the record of the other end has a value of this name
	text     bool // the target is a string, or bytes that are shown as one
	result   bool
	byValue  bool // the result, which is a struct or another type that no register holds
	withheld bool // it was not captured since the user wants it so
	view     expr.View

	scalarSlot, target *layout.Slot
	scalar             scalar
	object             *btfprint.Printer // of the target; nil if there is none or it is text
	later              *column           // of diff(): the value at return
}

// column returns how a field is written.
func (v *values) column(f output.Field) (c column, err error) {
	c = column{field: f, key: string(appendContents(nil, f.Label())), reason: f.Reason(), atReturn: f.AtReturn(), plain: f.IsPlainResult(),
		result: f.IsResult(), view: f.View()}
	if f.Withheld() {
		c.withheld, c.reason = true, redacted
		return c, nil
	}
	if f, ok := f.Later(); ok {
		later, err := v.column(f)
		if err != nil {
			return c, err
		}
		c.later = &later
	}
	c.scalarSlot, c.target = f.Slots()
	if c.scalarSlot != nil {
		if c.scalar, err = v.scalar(c.scalarSlot.Term.Type(), c.view); err != nil {
			return c, err
		}
	}
	if c.target == nil {
		return c, nil
	}
	c.byValue = c.scalarSlot == nil && f.Label() == "return"
	switch t := c.target.Term.(type) {
	case *expr.Text, *expr.Buffer:
		c.text = true
	case *expr.Object:
		c.object, err = v.printers.Of(t.T)
	}
	return c, err
}

// A state says what became of a value.
type state uint8

const (
	whole   state = iota
	unknown       // there is nothing to read: a null pointer
	cut           // only its beginning was captured
	unread        // it could not be read
)

// A gap is a value that is not there, or not all of it.
type gap struct{ key, reason string }

// redacted is why a value is null that was not to be captured.
const redacted = "redacted"

// append appends the value of an event; null if there is none.
func (v *values) append(dst []byte, c *column, e *event.Event) ([]byte, state) {
	switch {
	case c.withheld:
		return append(dst, "null"...), unread
	case c.later != nil:
		return v.appendDiff(dst, c, e)
	}
	return v.appendValue(dst, c, e)
}

// appendValue appends a value that was captured once.
func (v *values) appendValue(dst []byte, c *column, e *event.Event) ([]byte, state) {
	var raw []byte
	if c.scalarSlot != nil {
		var ok bool
		if raw, ok = e.Bytes(c.scalarSlot); !ok {
			return append(dst, "null"...), unread
		}
	}
	switch {
	case c.target == nil && c.result:
		return v.appendResult(dst, &c.scalar, raw), whole
	case c.target == nil:
		return v.appendScalar(dst, &c.scalar, raw), whole
	case c.scalarSlot == nil:
		return v.appendTarget(dst, c, e)
	}
	addr := c.scalar.number(raw)
	dst = v.openPointer(dst, addr, !c.result)
	if name := c.scalar.errorOf(addr); c.result && name != "" {
		dst = appendText(dst, "error", name)
	}
	dst = append(dst, `,"value":`...)
	if addr == 0 {
		return append(dst, "null}"...), unknown
	}
	dst, s := v.appendTarget(dst, c, e)
	return append(dst, '}'), s
}

// appendTarget appends what a pointer points to.
func (v *values) appendTarget(dst []byte, c *column, e *event.Event) ([]byte, state) {
	raw, ok := e.Bytes(c.target)
	if !ok {
		return append(dst, "null"...), unread
	}
	if c.byValue { // results are objects, so that those of all functions are asked alike
		dst, s := v.appendContent(append(dst, `{"value":`...), c, raw)
		return append(dst, '}'), s
	}
	return v.appendContent(dst, c, raw)
}

// appendContent appends the bytes of a target.
func (v *values) appendContent(dst []byte, c *column, raw []byte) ([]byte, state) {
	shown, short := c.field.Content(raw)
	s := whole
	if short {
		s = cut
	}
	switch {
	case c.view == expr.ViewMAC:
		return append(btfprint.AppendMAC(append(dst, '"'), shown), '"'), s
	case c.view == expr.ViewIP:
		return appendIP(dst, shown), s
	case c.text:
		return appendString(dst, shown), s
	}
	return c.object.AppendJSON(dst, shown, &v.options), s
}

// appendDiff appends what diff() compares; null if there is nothing to compare.
func (v *values) appendDiff(dst []byte, c *column, e *event.Event) ([]byte, state) {
	for _, side := range [...]*column{c, c.later} {
		if _, ok := e.Bytes(cmp.Or(side.scalarSlot, side.target)); !ok {
			return append(dst, "null"...), unread
		}
	}
	dst, before := v.appendValue(append(dst, `{"before":`...), c, e)
	dst, after := v.appendValue(append(dst, `,"after":`...), c.later, e)
	return append(dst, '}'), max(before, after)
}
