// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// A search is what is looked for.
type search struct {
	text  string
	match func([]byte) bool
}

// A scan is a search on its way. It goes on in steps, between which keys are taken.
type scan struct {
	at   int // the event whose turn it is
	from position
	by   int // 1: further on, -1: back
}

// scanMsg lets a scan go on.
type scanMsg struct{ scan *scan }

// scanTime is how long a step of a scan takes.
const scanTime = 20 * time.Millisecond

// look looks for the next line that matches behind the cursor, or before it.
func (m *model) look(by int) tea.Cmd {
	if m.search == nil {
		m.message = "nothing was searched: / searches"
		return nil
	}
	m.scan = &scan{at: m.at.event, from: m.at, by: by}
	return m.scanOn(m.scan)
}

// scanOn does a step of a scan.
func (m *model) scanOn(s *scan) tea.Cmd {
	if s != m.scan {
		return nil // given up
	}
	for begun := time.Now(); s.at >= 0 && s.at < m.state.events; s.at += s.by {
		if time.Since(begun) > scanTime {
			m.message = fmt.Sprintf("searching %s: event %d of %d; any key stops", m.search.text, s.at+1, m.state.events)
			return func() tea.Msg { return scanMsg{s} }
		}
		if line := m.found(s); line >= 0 {
			m.scan, m.message = nil, ""
			if line > 0 {
				m.unfold(s.at, true)
			}
			m.moveTo(position{s.at, line})
			return nil
		}
	}
	m.scan = nil
	m.message = fmt.Sprintf("no %s further on", m.search.text)
	if s.by < 0 {
		m.message = fmt.Sprintf("no %s before this", m.search.text)
	}
	if !m.state.ended && s.by > 0 {
		m.message += ", so far"
	}
	return nil
}

// found returns the line of the scan's event that matches, from where the scan has begun; -1: none.
func (m *model) found(s *scan) int {
	_, kept := m.events.lines[s.at]
	lines := m.events.linesOf(s.at)
	if !kept && !m.unfolded(s.at) {
		defer m.events.forget(s.at) // rather than those that are shown
	}
	first := 0
	if s.by < 0 {
		first = len(lines) - 1
	}
	if s.at == s.from.event {
		first = s.from.line + s.by
	}
	for line := first; line >= 0 && line < len(lines); line += s.by {
		if m.search.match([]byte(ansi.Strip(lines[line]))) {
			return line
		}
	}
	return -1
}

// nextError moves to the next event that failed, or the one before.
func (m *model) nextError(by int) {
	for i := m.at.event + by; i >= 0 && i < m.state.events; i += by {
		if m.events.store.bad(i) {
			m.moveTo(position{event: i})
			return
		}
	}
	m.message = "no failure further on"
	if by < 0 {
		m.message = "no failure before this"
	}
}
