// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/layout"
)

// Alike brings those rows together whose stacks of the kernel read the same. The kernel tells stacks apart by all
// addresses, also by those of tracing itself, which no stack shows: where it was preempted, or by which trampoline
// it was called.
func (t *Tails) Alike(f *summary.Filled, stacks summary.Stacks) summary.Filled {
	slots := kernelStacks(f.Table)
	if len(slots) == 0 || stacks == nil || len(f.Rows) < 2 {
		return *f
	}
	numbers, first, merged := map[uint64]uint64{}, map[string]uint64{}, false
	for i := range f.Rows {
		for _, slot := range slots {
			n := binary.LittleEndian.Uint64(f.Rows[i].Key[slot.Off:])
			if _, known := numbers[n]; known {
				continue
			}
			numbers[n] = n
			s, ok := stacks.Stack(n, false)
			if !ok {
				continue
			}
			text := t.reading(f.Table, &s)
			if other, known := first[text]; known {
				numbers[n], merged = other, true
			} else {
				first[text] = n
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
			key := r.Key[slot.Off:]
			binary.LittleEndian.PutUint64(key, numbers[binary.LittleEndian.Uint64(key)])
		}
		b.Add(0, r)
	}
	return b.Take()[0]
}

// kernelStacks returns where the keys of a table are that are stacks of the kernel.
func kernelStacks(t *summary.Table) (slots []*layout.Slot) {
	for i := range t.Key.Slots {
		slot := &t.Key.Slots[i]
		if c, ok := slot.Term.(*expr.ContextTerm); ok && c.Var == expr.ContextStack {
			slots = append(slots, slot)
		}
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
