// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/layout"
)

// rows are the tables that calls are added to.
type rows struct {
	tables  *summary.Tables
	layout  bpf.Tables
	unsure  []bool  // by table: the first word of a key has its faults
	memory  []byte  // of the engine
	stacks  []byte  // of the engine: the kept stacks; nil if no key is one
	half    uint32  // that programs use
	settler settler // waits for those that used the other half; nil without tables
}

// Limits on the memory of tables, in bytes. Before Linux 6.2 no value of an array is larger than
// smallTables. Without a number of keys that somebody asked for, tables take defaultTables at most.
const (
	smallTables   = 4 << 20
	largeTables   = 256 << 20
	defaultTables = 64 << 20
	defaultKeys   = 4096
	fewestKeys    = 64
)

// withTables returns a plan whose items know the tables that they add to.
func withTables(p *plan.Plan) (*plan.Plan, *summary.Tables, error) {
	tables := summary.Of(p)
	if len(tables.List) == 0 {
		return p, tables, nil
	}
	p, err := p.WithTables(tables.Index)
	return p, tables, err
}

// makeTables lays out the tables and has the programs use them.
func (t *Tracer) makeTables(s *bpf.Settings) error {
	r := &t.rows
	if len(r.tables.List) == 0 {
		return nil
	}
	shapes := make([]bpf.Table, len(r.tables.List))
	r.unsure = make([]bool, len(shapes))
	for i, table := range r.tables.List {
		shapes[i].RowWords, shapes[i].Single = table.Agg.Words(), table.Agg.Single()
		u := updateOf(t.plan, i)
		shapes[i].KeyWords, r.unsure[i] = u.KeyWords(), u.Unsure
	}
	s.KeptStacks = r.tables.HaveStacks()
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting the CPUs: %w", err)
	}
	if r.layout, err = t.layTables(shapes, s.Keys, cpus); err != nil {
		return err
	}
	s.Tables, t.options.Code.Tables = r.layout, r.layout
	if !s.TraceSelf {
		t.options.Code.Self, t.options.Code.SelfOffset = t.pids.self, t.selfOffset()
	}
	t.options.Log.Debug(fmt.Sprintf("tables in %d parts: %.1f MiB", r.layout.Shards(), mebibytes(r.layout.Size())))
	return nil
}

// selfOffset returns where a task has the number of its process; 0 if the types of the running kernel do not tell.
func (t *Tracer) selfOffset() uint32 {
	if t.options.untyped() {
		return 0
	}
	types, err := t.options.Kernel.BTF()
	var task *btf.Struct
	if err != nil || types.TypeByName("task_struct", &task) != nil {
		return 0
	}
	offset, _ := codegen.MemberOffset(task, "tgid")
	return offset
}

// layTables finds room for as many keys as are wanted; 0: for many.
func (t *Tracer) layTables(shapes []bpf.Table, keys, cpus int) (bpf.Tables, error) {
	limit := smallTables
	if t.host.largeArrays() {
		memory, err := ownMemory()
		if err != nil {
			return bpf.Tables{}, err
		}
		limit = int(min(max(memory/8, smallTables), largeTables))
	}
	if keys > 0 {
		return bpf.NewTables(shapes, keys, cpus, limit)
	}
	for keys = defaultKeys; keys > fewestKeys; keys /= 2 {
		if all, err := bpf.NewTables(shapes, keys, cpus, min(limit, defaultTables)); err == nil && all.Spread(cpus) {
			return all, nil
		}
	}
	return bpf.NewTables(shapes, keys, cpus, limit)
}

// updateOf returns an update of a table.
func updateOf(p *plan.Plan, table int) *layout.Update {
	for _, probe := range p.Probes {
		for _, h := range []*layout.Half{probe.Entry, probe.Return} {
			for i := 0; h != nil && i < len(h.Updates); i++ {
				if h.Updates[i].Table == table {
					return &h.Updates[i]
				}
			}
		}
	}
	panic("attach: nothing adds to a table")
}

// mapRows makes the tables and the stacks of their keys readable without system calls on maps, of which a table with many
// stacks would take many, and makes what TakeRows waits by.
func (t *Tracer) mapRows() (err error) {
	r := &t.rows
	if n := r.layout.Size(); n > 0 {
		if r.settler, err = t.host.settler(); err == nil {
			r.memory, err = t.engine.memory(bpf.MapRows, n)
		}
	}
	if err == nil && r.tables.HaveStacks() {
		r.stacks, err = t.engine.memory(bpf.MapStacks, bpf.StacksSize)
	}
	return err
}

// unmapRows undoes mapRows.
func (t *Tracer) unmapRows() (err error) {
	for _, memory := range [...]*[]byte{&t.rows.memory, &t.rows.stacks} {
		if *memory != nil {
			err = errors.Join(err, t.engine.unmap(*memory))
			*memory = nil
		}
	}
	if t.rows.settler != nil {
		err = errors.Join(err, t.rows.settler.Close())
	}
	return err
}

// Tables are those of the plan as it is attached.
func (t *Tracer) Tables() *summary.Tables { return t.rows.tables }

// TakeRows adds to b what calls have added up since the last time. No call is lost: those that
// come meanwhile are there the next time. It returns how many keys b has no room for.
func (t *Tracer) TakeRows(b *summary.Builder) (lost uint64, err error) {
	r := &t.rows
	taken := r.half
	r.half = 1 - taken
	if err := t.engine.variable(bpf.VarHalf).Set(r.half); err != nil {
		return 0, fmt.Errorf("changing the tables: %w", err)
	}
	if err := r.settler.settle(); err != nil {
		return 0, fmt.Errorf("waiting for programs to end: %w", err)
	}
	for table, row := range r.take(int(taken)) {
		if !b.Add(table, row) {
			lost++
		}
	}
	return lost, nil
}

// take yields the rows of a half, each valid until the next, and clears them.
func (r *rows) take(half int) func(yield func(int, summary.Row) bool) {
	return func(yield func(int, summary.Row) bool) {
		r.layout.Take(r.memory, half)(func(table int, key []byte, words []uint64) bool {
			row := summary.Row{Key: key, Words: words}
			if r.unsure[table] {
				row.Faults, row.Key = binary.LittleEndian.Uint64(key), key[8:]
			}
			tidy(r.tables.List[table].Key, row)
			return yield(table, row)
		})
	}
}

// tidy clears what programs leave in a key: of a part that could not be read, and behind the end of a
// string.
func tidy(of *layout.Record, row summary.Row) {
	for i := range of.Slots {
		s := &of.Slots[i]
		part := row.Key[s.Off:][:s.Size]
		_, text := s.Term.(*expr.Text)
		switch end := bytes.IndexByte(part, 0); {
		case row.Faults>>s.Index&1 != 0:
			clear(part)
		case text && end >= 0:
			clear(part[end:])
		}
	}
}

// Stack returns a stack that a key names.
func (t *Tracer) Stack(number uint64, _ bool) (s summary.Stack, ok bool) {
	kept, ok := bpf.NewKeptStack(t.rows.stacks, number)
	if !ok {
		return s, false
	}
	return summary.Stack{Addresses: kept.Addresses, Cut: kept.Full(), Task: bpf.Event{PID: kept.PID, TID: kept.TID, Comm: kept.Comm}}, true
}
