// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/internal/symbols"
)

// mostStacks is how many stacks are known at a time. After as many, all are forgotten: a stack
// that comes again is written again, with another ID.
const mostStacks = 4096

// A stackTable gives stacks their IDs.
type stackTable struct {
	ids  map[string]uint64
	next uint64
	key  []byte // reused
}

// of returns the ID of the stack with a key. isNew says that it is not written yet.
func (t *stackTable) of(key []byte) (id uint64, isNew bool) {
	if id, ok := t.ids[string(key)]; ok {
		return id, false
	}
	if t.ids == nil || len(t.ids) == mostStacks {
		t.ids = map[string]uint64{}
	}
	t.next++
	t.ids[string(key)] = t.next
	return t.next, true
}

// ofAddresses is of for a stack that its addresses alone tell apart.
func (t *stackTable) ofAddresses(addrs []uint64) (id uint64, isNew bool) {
	t.key = t.key[:0]
	for _, a := range addrs {
		t.key = binary.LittleEndian.AppendUint64(t.key, a)
	}
	return t.of(t.key)
}

// openStack begins the line of a stack.
func (p *Printer) openStack(dst []byte, id uint64) []byte {
	return append(appendUint(p.openLine(dst, "stack"), "id", id), `,"frames":[`...)
}

// appendFrame appends the place of an address.
func appendFrame(dst []byte, f *symbols.Frame) []byte {
	dst = appendAddress(append(dst, `{"addr":`...), f.Addr)
	if f.Name != "" {
		dst = appendText(dst, "symbol", f.Name)
		if !f.Inlined {
			dst = appendUint(dst, "offset", f.Offset)
		}
	}
	if f.Module != "" {
		dst = appendText(dst, "module", f.Module)
	}
	if f.File != "" {
		dst = appendText(dst, "file", f.File)
		dst = appendCount(dst, "line", uint64(max(f.Line, 0)))
		dst = appendCount(dst, "column", uint64(max(f.Column, 0)))
	}
	return append(appendTrue(dst, "inlined", f.Inlined), '}')
}
