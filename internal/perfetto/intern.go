// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// tables hold what has been written once and is named by a number from then on. They are
// bounded: when they take too much memory, all are emptied, and the next packet says so.
type tables struct {
	size   int
	last   uint64            // the newest number; no number is given twice
	known  map[string]uint64 // by the field of InternedData and the bytes
	tracks map[track]string  // with the name that each was given last

	fresh []byte // entries of InternedData that are not written yet
	key   []byte
	stack []byte
	names []byte
}

// entryCost is the memory of an entry in bytes, besides its key.
const entryCost = 64

func (t *tables) reset() {
	t.size, t.known, t.tracks = 0, map[string]uint64{}, map[track]string{}
}

// intern returns the number of an entry of a table, and whether it is new. It takes t.key,
// which tells the entry from the others of the table.
func (t *tables) intern(table byte) (id uint64, isNew bool) {
	t.key = append(t.key, table)
	if id := t.known[string(t.key)]; id != 0 {
		return id, false
	}
	t.last++
	t.known[string(t.key)] = t.last
	t.size += len(t.key) + entryCost
	return t.last, true
}

// text returns the number of a text that is safe to show.
func (t *tables) text(table protowire.Number, text []byte) uint64 {
	t.key = append(t.key[:0], text...)
	id, isNew := t.intern(byte(table))
	if isNew {
		var start int
		t.fresh, start = protomsg.Begin(t.fresh, table)
		t.fresh = protomsg.End(protomsg.AppendString(protomsg.AppendUint(t.fresh, internedID, id), internedString, text), start)
	}
	return id
}

// name returns the number of a name that others have chosen.
func (t *tables) name(table protowire.Number, name string) uint64 {
	t.names = terminal.AppendName(t.names[:0], name)
	return t.text(table, t.names)
}

// callstack returns the number of a stack, outermost first.
func (t *tables) callstack(frames []symbols.Frame) uint64 {
	t.stack = t.stack[:0]
	for i := range frames {
		t.stack = binary.AppendUvarint(t.stack, t.frame(&frames[i]))
	}
	t.key = append(t.key[:0], t.stack...)
	id, isNew := t.intern(internedCallstacks)
	if !isNew {
		return id
	}
	var start int
	t.fresh, start = protomsg.Begin(t.fresh, internedCallstacks)
	t.fresh = protomsg.AppendUint(t.fresh, internedID, id)
	for b := t.stack; len(b) > 0; {
		frame, n := binary.Uvarint(b)
		b = b[n:]
		t.fresh = protomsg.AppendUint(t.fresh, stackFrame, frame)
	}
	t.fresh = protomsg.End(t.fresh, start)
	return id
}

// frame returns the number of a function in a stack. Its address is not part of it: it says
// nothing that the line does not, and differs from boot to boot.
func (t *tables) frame(f *symbols.Frame) uint64 {
	if f.Name == "" || f.Inlined {
		t.names = f.AppendName(t.names[:0])
	} else {
		t.names = symname.Append(t.names[:0], f.Name, f.Module)
	}
	function, source := t.text(internedFunctions, t.names), uint64(0)
	if f.File != "" {
		source = t.name(internedSourcePaths, f.File)
	}
	line := uint64(max(f.Line, 0))
	t.key = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(t.key[:0], function), source), line)
	id, isNew := t.intern(internedFrames)
	if !isNew {
		return id
	}
	var start int
	t.fresh, start = protomsg.Begin(t.fresh, internedFrames)
	t.fresh = protomsg.AppendUint(protomsg.AppendUint(t.fresh, internedID, id), frameFunction, function)
	if source != 0 {
		t.fresh = protomsg.AppendUint(t.fresh, frameSource, source)
	}
	if line != 0 {
		t.fresh = protomsg.AppendUint(t.fresh, frameLine, line)
	}
	t.fresh = protomsg.End(protomsg.AppendUint(t.fresh, frameKind, kindKernel), start)
	return id
}

// take returns the entries that are not written yet. They are valid until the next is made.
func (t *tables) take() []byte {
	fresh := t.fresh
	t.fresh = t.fresh[:0]
	return fresh
}
