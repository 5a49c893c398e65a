// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/ksnoop/ksnoop/internal/unwind"

// mostRows is how many rows all images together keep. Each takes 1 KiB. Addresses without a row count as well.
const mostRows = 1 << 16

// row returns the rules at a linked address, and what tells them; nil if nothing does, or if to find them takes more steps than
// are left.
func (m *image) row(linked uint64, left *int) (*unwind.Row, unwind.Way) {
	if m.unwind != nil {
		if row := m.unwind.Row(linked, left); row != nil {
			return row, unwind.ByTable
		}
	}
	switch {
	case m.frames != nil:
		return m.frames.row(linked, left), unwind.ByGo
	case m.code != nil:
		return m.code.row(linked, left), unwind.ByCode
	}
	return nil, 0
}

// keptRows returns how many rows are kept of what was looked up.
func (m *image) keptRows() int {
	n := m.unwind.Kept()
	if m.frames != nil {
		n += len(m.frames.rows)
	}
	if m.code != nil {
		n += len(m.code.rows)
	}
	return n + len(m.noCallers)/noCallersInRow
}

// noCallersInRow is how many entries of noCallers take as much as a row.
const noCallersInRow = 25

func (m *image) forgetRows() {
	m.noCallers = nil
	m.unwind.Forget()
	if m.frames != nil {
		m.frames.rows = map[uint64]*unwind.Row{}
	}
	if m.code != nil {
		m.code.rows = map[uint64]*unwind.Row{}
	}
}

// keepRows takes note of how many more rows an image keeps. If all together keep too many, they forget them: a process may
// map any number of files, and choose the addresses of its stacks.
func (s *Symbols) keepRows(img *image, more int) {
	if s.keptRows += more; more > 0 {
		s.withRows[img] = struct{}{}
	}
	if s.keptRows > mostRows {
		s.forgetRows()
	}
}

func (s *Symbols) forgetRows() {
	for img := range s.withRows {
		img.forgetRows()
	}
	clear(s.withRows)
	s.keptRows = 0
}
