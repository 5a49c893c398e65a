// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"encoding/binary"
	"slices"
)

// A Builder brings together rows of the same key.
type Builder struct {
	tables []building
	key    []byte
	// Limit is the most keys of a table; 0: there is no limit.
	Limit int
}

// A building is a table whose rows are still added to.
type building struct {
	table *Table
	rows  []Row
	known map[string]int
	words int // of all rows
}

// NewBuilder returns a Builder of tables without rows.
func NewBuilder(t *Tables) *Builder {
	b := &Builder{tables: make([]building, len(t.List))}
	for i, table := range t.List {
		b.tables[i] = building{table: table, known: map[string]int{}}
	}
	return b
}

// Words returns the words of a row of a table, which is new if there was none for its key: all
// words are 0 then. They are nil if the table has no room for another key. The key is copied.
func (b *Builder) Words(table int, key []byte, faults uint64) []uint64 {
	if r := b.row(table, key, faults); r != nil {
		return r.Words
	}
	return nil
}

// row returns a row of a table as Words does, valid until the next one is new.
func (b *Builder) row(table int, key []byte, faults uint64) *Row {
	t := &b.tables[table]
	b.key = append(binary.LittleEndian.AppendUint64(b.key[:0], faults), key...)
	if i, ok := t.known[string(b.key)]; ok {
		return &t.rows[i]
	}
	if b.Limit > 0 && len(t.rows) >= b.Limit {
		return nil
	}
	own := string(b.key)
	t.known[own] = len(t.rows)
	words := make([]uint64, t.table.Agg.Words())
	t.words += len(words)
	t.rows = append(t.rows, Row{[]byte(own[8:]), faults, words})
	return &t.rows[len(t.rows)-1]
}

// Add adds a row. ok is false if the table has no room for another key.
func (b *Builder) Add(table int, r Row) (ok bool) {
	to := b.row(table, r.Key, r.Faults)
	if to == nil {
		return false
	}
	t, before := &b.tables[table], len(to.Words)
	to.Words = t.table.Agg.Merge(to.Words, r.Words)
	t.words += len(to.Words) - before
	return true
}

// What a table may have before a sum that lasts as long as its run begins anew.
const (
	manyKeys  = 1 << 16
	manyWords = 64 << 20 / 8
)

// Full reports whether a table has as much as one may that is added to as long as a run lasts: keys such as $pid are new ones
// for ever.
func (b *Builder) Full() bool {
	return slices.ContainsFunc(b.tables, func(t building) bool {
		return len(t.rows) >= manyKeys || t.words >= manyWords
	})
}

// Filled returns all tables, also those without rows, valid until something is added.
func (b *Builder) Filled() []Filled {
	out := make([]Filled, len(b.tables))
	for i := range b.tables {
		out[i] = Filled{b.tables[i].table, b.tables[i].rows}
	}
	return out
}

// Take is Filled, and empties the Builder: what it returns stays valid.
func (b *Builder) Take() []Filled {
	out := b.Filled()
	for i := range b.tables {
		b.tables[i].rows, b.tables[i].words = nil, 0
		clear(b.tables[i].known)
	}
	return out
}
