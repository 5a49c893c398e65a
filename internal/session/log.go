// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/ksnoop/ksnoop/bpf"
)

// A log holds the received parts of a session's log, in order. Lost parts leave gaps.
type log struct {
	parts []segment
	begin uint32 // everything before was dropped or is not needed
	left  uint32 // calls in the dropped parts
	cut   bool   // something was dropped
	// missed counts values that were looked for and are in no part.
	missed uint32
	calls  []madeCall // by depth, while parts are added
	before []madeCall // as calls was before the last part
	// told is what came before these parts, for look-ups only; nil if that is nothing.
	told *log
	// late says that calls are not known as they were behind the last part.
	late bool
}

// A segment is a part of a log. Offsets are those of the session's whole log, modulo 2^32.
type segment struct {
	base  uint32
	data  []byte
	calls uint32       // that start in it
	args  []valuesArgs // in order
}

// A valuesArgs maps the offset of a call's values to that of its arguments. In a trace,
// arguments are logged at the entry and values at the return.
type valuesArgs struct{ values, args uint32 }

// A madeCall is the newest call of a depth, and where its arguments are, if known.
type madeCall struct {
	args  uint32
	known bool
	time  uint64 // of its entry, if that was seen
	timed bool
}

// part returns a log with a single part.
func part(base uint32, data []byte) *log {
	return &log{parts: []segment{{base: base, data: data}}, begin: base}
}

func (s *segment) end() uint32 { return s.base + uint32(len(s.data)) }

// add appends a part to the log.
func (l *log) add(base uint32, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	l.before = append(l.before[:0], l.calls...)
	if end, any := l.end(); any && end != base {
		if int32(base-end) < 0 {
			return fmt.Errorf("decoding a record: a log of %d bytes goes on at %d", end, base)
		}
		for i := range l.calls { // what comes now may be of other calls
			if !l.calls[i].known || !l.calls[i].timed {
				l.calls[i] = madeCall{}
			}
		}
	}
	s := segment{base: base, data: data}
	for at := 0; at < len(data); {
		e, err := bpf.DecodeLog(data[at:])
		if err != nil {
			return fmt.Errorf("decoding a record: %w", err)
		}
		l.index(&s, &e, base+uint32(at))
		at += e.Size
	}
	l.parts = append(l.parts, s)
	return nil
}

// index notes which arguments belong to which values.
func (l *log) index(s *segment, e *bpf.Logged, at uint32) {
	for e.Depth >= len(l.calls) {
		l.calls = append(l.calls, madeCall{})
	}
	c := &l.calls[e.Depth]
	switch e.Kind {
	case bpf.LogEntry:
		s.calls++
		*c = madeCall{time: e.Time, timed: true}
	case bpf.LogArgs:
		if c.known { // of a call whose entry was lost
			*c = madeCall{}
		}
		c.args, c.known = at, true
	case bpf.LogItem, bpf.LogOpen:
		if c.known && (!c.timed || c.time == e.Entered()) {
			s.args = append(s.args, valuesArgs{at, c.args})
		}
	case bpf.LogExit:
		*c = madeCall{}
	}
}

// drop gives up the oldest part.
func (l *log) drop() {
	s := &l.parts[0]
	l.begin, l.cut = s.end(), true
	l.left += s.calls
	*s = segment{}
	l.parts = l.parts[1:]
}

// end returns where the log ends, if it has parts.
func (l *log) end() (at uint32, any bool) {
	if n := len(l.parts); n > 0 {
		return l.parts[n-1].end(), true
	}
	if l.told != nil {
		return l.told.end()
	}
	return 0, false
}

// dropped reports whether an offset is in a dropped part. It cannot tell it from one that
// comes 2 GiB later.
func (l *log) dropped(at uint32) bool {
	if l.told != nil {
		return l.told.dropped(at)
	}
	return l.cut && int32(at-l.begin) < 0
}

// until returns how many parts end at an offset or before.
func (l *log) until(at uint32) int {
	return sort.Search(len(l.parts), func(i int) bool { return int32(l.parts[i].end()-at) > 0 })
}

// since returns a copy, which can be added to, of the parts from told to n. It takes only the
// time and the memory that these take, and shares the others.
func (l *log) since(told, n int) *log {
	c := &log{parts: slices.Clone(l.parts[told:n]), begin: l.begin, left: l.left, cut: l.cut}
	if told > 0 {
		c.told = &log{parts: l.parts[:told:told], begin: l.begin, cut: l.cut}
		c.begin, c.left, c.cut = l.parts[told-1].end(), 0, false
	}
	switch n {
	case len(l.parts):
		c.calls = slices.Clone(l.calls)
	case len(l.parts) - 1:
		c.calls = slices.Clone(l.before)
	default:
		c.late = true
	}
	return c
}

// from drops what is before an offset.
func (l *log) from(at uint32) {
	if int32(at-l.begin) <= 0 {
		return
	}
	l.begin, l.cut = at, false
	l.parts = slices.DeleteFunc(l.parts, func(s segment) bool { return int32(s.end()-at) <= 0 })
	if len(l.parts) > 0 && int32(at-l.parts[0].base) > 0 {
		s := &l.parts[0]
		s.base, s.data = at, s.data[at-s.base:]
	}
}

// find returns the part that contains an offset.
func (l *log) find(at uint32) (s *segment, ok bool) {
	if s, ok = l.search(at); !ok && l.told != nil {
		return l.told.search(at)
	}
	return s, ok
}

// search is find without what came before the parts.
func (l *log) search(at uint32) (s *segment, ok bool) {
	if len(l.parts) == 0 {
		return nil, false
	}
	first := l.parts[0].base
	i, found := slices.BinarySearchFunc(l.parts, at-first, func(s segment, at uint32) int { return cmp.Compare(s.base-first, at) })
	if !found {
		i--
	}
	if i < 0 || at-l.parts[i].base >= uint32(len(l.parts[i].data)) {
		return nil, false
	}
	return &l.parts[i], true
}

var le = binary.LittleEndian

// entry returns the entry at an offset of the whole log.
func (l *log) entry(at uint32) (e bpf.Logged, ok bool) {
	s, ok := l.find(at)
	if !ok {
		return bpf.Logged{}, false
	}
	e, err := bpf.DecodeLog(s.data[at-s.base:])
	return e, err == nil
}

// argsOf returns the offset of the arguments of the call whose values are at an offset.
func (l *log) argsOf(at uint32) (args uint32, ok bool) {
	s, ok := l.find(at)
	if !ok {
		return 0, false
	}
	i, ok := slices.BinarySearchFunc(s.args, at-s.base, func(a valuesArgs, at uint32) int { return cmp.Compare(a.values-s.base, at) })
	if !ok {
		return 0, false
	}
	return s.args[i].args, true
}
