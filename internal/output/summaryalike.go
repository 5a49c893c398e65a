// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// Alike brings those rows together whose stacks read the same, and whose containers. The kernel tells
// stacks apart by all addresses, also by those of tracing itself, which no stack shows: where it was preempted, or by
// which trampoline it was called. A stack has two numbers if two CPUs kept it at the same time. Containers it tells
// apart by cgroups, of which one can have several.
func (t *Tails) Alike(f *summary.Filled, stacks summary.Stacks) summary.Filled {
	slots := t.readingSlots(f.Table, stacks)
	if len(slots) == 0 || len(f.Rows) < 2 {
		return *f
	}
	merged := false
	for i := range f.Rows {
		for j := range slots {
			if slots[j].note(f.Rows[i].Key) {
				merged = true
			}
		}
	}
	if !merged {
		return *f
	}
	b := summary.NewBuilder(&summary.Tables{List: []*summary.Table{f.Table}})
	for _, r := range f.Rows {
		r.Key = slices.Clone(r.Key)
		for _, slot := range slots {
			key := r.Key[slot.off:]
			binary.LittleEndian.PutUint64(key, slot.numbers[binary.LittleEndian.Uint64(key)])
		}
		b.Add(0, r)
	}
	return b.Take()[0]
}

// A readingSlot is a key that stands for what is read in its place.
type readingSlot struct {
	off     uint32
	read    func(number uint64) (text string, ok bool)
	numbers map[uint64]uint64 // which number is taken for each
	first   map[string]uint64 // number of a text
}

// note reads the key of a row. It reports whether another row reads the same.
func (s *readingSlot) note(row []byte) bool {
	n := binary.LittleEndian.Uint64(row[s.off:])
	if _, known := s.numbers[n]; known {
		return false
	}
	s.numbers[n] = n
	text, ok := s.read(n)
	if !ok {
		return false
	}
	other, known := s.first[text]
	if !known {
		s.first[text] = n
		return false
	}
	s.numbers[n] = other
	return true
}

// readingSlots returns the keys of a table that are read.
func (t *Tails) readingSlots(table *summary.Table, stacks summary.Stacks) (slots []readingSlot) {
	stack := func(n uint64) (string, bool) {
		s, ok := stacks.Stack(n, false)
		if !ok {
			return "", false
		}
		return t.reading(table, &s), true
	}
	userStack := func(n uint64) (string, bool) {
		s, ok := stacks.Stack(n, true)
		if !ok {
			return "", false
		}
		return t.userReading(&s), true
	}
	for i := range table.Key.Slots {
		slot := &table.Key.Slots[i]
		key := readingSlot{off: slot.Off, numbers: map[uint64]uint64{}, first: map[string]uint64{}}
		c, ok := slot.Term.(*expr.ContextTerm)
		switch view := table.Agg.Keys[slot.Capture].View; {
		case !ok || table.Agg.Keys[slot.Capture].Withheld != nil:
			continue
		case c.Var == expr.ContextStack && stacks != nil:
			key.read = stack
		case c.Var == expr.ContextUserStack && stacks != nil:
			key.read = userStack
		case view == expr.ViewContainer || view == expr.ViewPod:
			key.read = func(n uint64) (string, bool) { return t.names.place(view, n), true }
		default:
			continue
		}
		slots = append(slots, key)
	}
	return slots
}

// reading returns a text that is the same for stacks of which the same is shown.
func (t *Tails) reading(table *summary.Table, s *summary.Stack) string {
	var text []byte
	for _, f := range t.AppendSummed(nil, table, s) {
		if text = symname.Append(text, f.Name, f.Module); f.Name == "" {
			f.Offset = f.Addr
		}
		text = append(binary.LittleEndian.AppendUint64(append(text, 0), f.Offset), 0)
	}
	if s.Cut {
		text = append(text, 1)
	}
	return string(text)
}

// userReading is reading for a stack in user space. Equal addresses are other functions in another process.
func (t *Tails) userReading(s *summary.Stack) string {
	t.addrs = append(t.addrs[:0], s.Addresses...)
	text := binary.LittleEndian.AppendUint32(nil, s.Task.PID)
	for _, addr := range t.userAddresses() {
		text = binary.LittleEndian.AppendUint64(text, addr)
	}
	if s.Cut {
		text = append(text, 1)
	}
	return string(text)
}
