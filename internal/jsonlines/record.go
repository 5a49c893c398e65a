// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/layout"
)

// records know how the values of records are written, by their layouts.
type records struct {
	values
	fields *output.Fields
	known  map[*layout.Record][]column
	args   map[*layout.Param]*argument
	// What could not be read, or only in part, of the values written last: keys and reasons.
	missing, short []gap
}

// of returns the columns of an event's record. An event without values has none.
func (r *records) of(e *event.Event) ([]column, error) {
	if e == nil || e.Record == nil {
		return nil, nil
	}
	if columns, ok := r.known[e.Record]; ok {
		return columns, nil
	}
	columns, err := r.columns(e)
	if err != nil {
		return nil, fmt.Errorf("printing %s: %w", e.Probe.Func.Name, err)
	}
	if other := e.Probe.Entry; other != nil && other.Record != nil && other.Record != e.Record {
		entry, err := r.columns(&event.Event{Probe: e.Probe, Record: other.Record})
		if err != nil {
			return nil, fmt.Errorf("printing %s: %w", e.Probe.Func.Name, err)
		}
		for i := range columns {
			columns[i].again = has(entry, columns[i].key)
		}
	}
	r.known[e.Record] = columns
	return columns, nil
}

// columns makes the columns of a record. An expression that stands in a SPEC twice is one.
func (r *records) columns(e *event.Event) ([]column, error) {
	fields, err := r.fields.Of(e)
	if err != nil {
		return nil, err
	}
	columns := make([]column, 0, len(fields))
	for _, f := range fields {
		c, err := r.column(f)
		if err != nil {
			return nil, err
		}
		if !has(columns, c.key) {
			columns = append(columns, c)
		}
	}
	return columns, nil
}

func has(columns []column, key string) bool {
	for i := range columns {
		if columns[i].key == key {
			return true
		}
	}
	return false
}

// A moment says which values of a record are wanted.
type moment uint8

const (
	always   moment = iota
	atEntry         // what is known when the call begins
	atReturn        // what is known only when it has returned
	inChain         // all but the result, which a call of a session has anyway
)

func (c *column) in(m moment) bool {
	switch m {
	case atEntry:
		return !c.atReturn
	case atReturn:
		return c.atReturn && !c.plain
	case inChain:
		return !c.plain
	}
	return true
}

// appendValues appends the members of an event's values. joined says that the values of the
// call's entry stand before them.
func (r *records) appendValues(dst []byte, e *event.Event, m moment, joined bool) ([]byte, error) {
	columns, err := r.of(e)
	if err != nil {
		return dst, err
	}
	for i := range columns {
		c := &columns[i]
		if joined && c.again || !c.in(m) {
			continue
		}
		dst = appendKey(dst, c.key)
		var s state
		switch dst, s = r.append(dst, c, e); s {
		case cut:
			r.short = append(r.short, gap{key: c.key})
		case unread:
			r.missing = append(r.missing, gap{c.key, c.reason})
		}
	}
	return dst, nil
}

// appendGaps appends why values are null, and which are only the beginning.
func (r *records) appendGaps(dst []byte) []byte {
	if len(r.missing) > 0 {
		dst = append(appendKey(dst, "unreadable"), '{')
		for _, g := range r.missing {
			dst = append(append(append(appendKey(dst, g.key), '"'), g.reason...), '"')
		}
		dst = append(dst, '}')
	}
	if len(r.short) > 0 {
		dst = append(appendKey(dst, "cut"), '[')
		for _, g := range r.short {
			dst = append(append(append(appendComma(dst), '"'), g.key...), '"')
		}
		dst = append(dst, ']')
	}
	r.missing, r.short = r.missing[:0], r.short[:0]
	return dst
}
