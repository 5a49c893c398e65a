// SPDX-License-Identifier: Apache-2.0

package view

import "cmp"

// A position is a line of the list: of an event, the line that stands for it (0) or one of those that are shown
// when it is unfolded.
type position struct{ event, line int }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.event, q.event), cmp.Compare(p.line, q.line))
}

// height returns how many lines of an event are shown, 0 if there are no events.
func (m *model) height(event int) int {
	if m.state.events == 0 {
		return 0
	}
	if !m.unfolded(event) {
		return 1
	}
	return len(m.events.linesOf(event))
}

// unfolded reports whether an event is unfolded.
func (m *model) unfolded(event int) bool { return m.allUnfolded != m.others[event] }

// step returns the position some lines further on, or back, as far as there are lines, and by how many it is.
func (m *model) step(p position, by int) (position, int) {
	moved := 0
	for ; moved < by; moved++ {
		switch {
		case p.line+1 < m.height(p.event):
			p.line++
		case p.event+1 < m.state.events:
			p = position{event: p.event + 1}
		default:
			return p, moved
		}
	}
	for ; moved > by; moved-- {
		switch {
		case p.line > 0:
			p.line--
		case p.event > 0:
			p = position{p.event - 1, m.height(p.event-1) - 1}
		default:
			return p, moved
		}
	}
	return p, moved
}

// move moves the cursor by lines. What is shown follows it.
func (m *model) move(by int) {
	m.at, _ = m.step(m.at, by)
	m.follow()
}

// page moves the cursor and what is shown by lines.
func (m *model) page(by int) {
	m.at, _ = m.step(m.at, by)
	m.top, _ = m.step(m.top, by)
	m.follow()
}

// moveTo moves the cursor to a position. If that is not shown, it comes to the middle.
func (m *model) moveTo(p position) {
	m.at = p
	if n := m.between(); n < 0 || n >= m.rows() {
		m.top, _ = m.step(p, -m.rows()/2)
	}
	m.follow()
}

// between counts the lines from the first one that is shown to the cursor, up to the height of the list; -1: the
// cursor is above.
func (m *model) between() (n int) {
	p := m.top
	if m.at.compare(p) < 0 {
		return -1
	}
	for p != m.at && n <= m.rows() {
		p, _ = m.step(p, 1)
		n++
	}
	return n
}

// follow has the cursor's line shown, and no empty lines at the end if there are lines above.
func (m *model) follow() {
	m.at.event = max(0, min(m.at.event, m.state.events-1))
	m.at.line = min(m.at.line, max(0, m.height(m.at.event)-1))
	m.top.event = max(0, min(m.top.event, m.state.events-1))
	m.top.line = min(m.top.line, max(0, m.height(m.top.event)-1))
	switch n := m.between(); {
	case n < 0:
		m.top = m.at
	case n >= m.rows():
		m.top, _ = m.step(m.at, 1-m.rows())
	}
	if _, n := m.step(m.top, m.rows()-1); n < m.rows()-1 && m.state.events > 0 {
		m.top, _ = m.step(m.top, n-m.rows()+1)
	}
}
