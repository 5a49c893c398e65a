// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A Summed is a summary that is being made.
type Summed struct {
	t       *Trace
	builder *summary.Builder
	tables  *summary.Tables
}

// Summed returns an empty summary of a Trace's aggregations.
func (t *Trace) Summed() *Summed {
	tables := summary.Of(t.Run.Plan)
	return &Summed{t, summary.NewBuilder(tables), tables}
}

// Unread stands for a key that could not be read.
type Unread struct{}

// Add adds calls to a row of a table: keys that are numbers, strings or Unread, and the value of
// each call, which is not looked at where calls are only counted.
func (s *Summed) Add(table int, keys []any, values ...uint64) {
	s.t.t.Helper()
	of := s.tables.List[table]
	key, faults := make([]byte, of.Key.Size), uint64(0)
	for i, slot := range of.Key.Slots {
		to := key[slot.Off : slot.Off+slot.Size]
		switch k := keys[i].(type) {
		case int:
			binary.LittleEndian.PutUint64(to, uint64(k))
		case uint64:
			binary.LittleEndian.PutUint64(to, k)
		case string:
			copy(to, k)
		case Unread:
			faults |= 1 << slot.Index
		default:
			s.t.t.Fatalf("key %d is a %T", i, k)
		}
	}
	words := s.builder.Words(table, key, faults)
	for _, x := range values {
		of.Agg.Accumulate(words, x)
	}
}

// Summary returns what was added since the last time, from one to two seconds after boot, with two
// calls that are missing.
func (s *Summed) Summary() *summary.Summary {
	return &summary.Summary{Start: 1e9, End: 2e9, Tables: s.builder.Take(), Last: true, Stacks: stacks{},
		Lost: []event.Loss{{Cause: bpf.Fault, Count: 2}}}
}

// stacks are those of keys: number 1 is read called by open, in both spaces.
type stacks struct{}

func (stacks) Stack(number uint64, user bool) (s summary.Stack, ok bool) {
	switch {
	case number != 1:
		return s, false
	case user:
		return summary.Stack{Addresses: []uint64{0x401000, 0x402000}, Task: bpf.Event{PID: 7, TID: 8, Comm: Comm("cat")}}, true
	}
	return summary.Stack{Addresses: []uint64{Read + 5, Open + 0x50, Syscall + 0x60}, Cut: true}, true
}
