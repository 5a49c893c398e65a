// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// What a terminal shows in reverse, and faint.
const (
	reverse = "\x1b[7m"
	faint   = "\x1b[2m"
	plain   = "\x1b[0m"
)

// rows is how many lines the list has: all but the title, the line of what is going on and that of keys. A window
// that is too low for these has a list only.
func (m *model) rows() int {
	if m.lines < 5 {
		return max(1, m.lines-1)
	}
	return m.lines - 3
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	if p := m.prompt; p != nil {
		v.Cursor = tea.NewCursor(min(m.width-1, ansi.StringWidth(p.label+string(p.text[:p.at]))), min(m.lines, m.rows()+2)-1)
		if m.lines < 5 {
			v.Cursor.Y = m.lines - 1
		}
	}
	return v
}

// screen returns the lines of the terminal, none wider than it is.
func (m *model) screen() []string {
	var lines []string
	if m.lines >= 5 {
		lines = append(lines, reverse+pad(m.title+m.lacking(), m.width)+plain)
	}
	if m.panel != nil {
		lines = append(lines, m.panelLines()...)
	} else {
		lines = append(lines, m.list()...)
	}
	lines = append(lines, m.status())
	if m.lines >= 5 {
		lines = append(lines, faint+ansi.Truncate(helpLine, m.width, "")+plain)
	}
	return lines[max(0, len(lines)-m.lines):]
}

// titleOf names the recording, its host and kernel.
func (m *model) titleOf(run *output.Run) string {
	parts := []string{m.Source.Name(), run.Host}
	if run.Kernel != nil {
		release, _ := run.Kernel.Release() // a recording need not have it
		parts = append(parts, release)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return " " + terminal.Name(strings.Join(parts, " · "))
}

// wrapped returns the lines of the panel, those that are too long in several.
func (m *model) wrapped() (lines []string) {
	for _, line := range safe([]byte(strings.Join(m.panel, "\n")), false) {
		lines = append(lines, strings.Split(ansi.Hardwrap(line, max(1, m.width), true), "\n")...)
	}
	return lines
}

// panelLines are the lines of what is shown in place of the list.
func (m *model) panelLines() []string {
	lines := m.wrapped()
	lines = lines[min(m.from, len(lines)):]
	if len(lines) > m.rows() {
		lines = append(lines[:m.rows()-1:m.rows()-1], faint+ansi.Truncate("… more: ↓", m.width, "")+plain)
	}
	for len(lines) < m.rows() {
		lines = append(lines, "")
	}
	return lines
}

// list returns the lines of the list.
func (m *model) list() []string {
	var lines []string
	p := m.top
	for m.state.events > 0 && len(lines) < m.rows() {
		lines = append(lines, m.line(p))
		next, n := m.step(p, 1)
		if n == 0 {
			break
		}
		p = next
	}
	for len(lines) < m.rows() {
		lines = append(lines, "")
	}
	return lines
}

// line returns a line of the list, as much of it as there is room for.
func (m *model) line(p position) string {
	mark, text := "  ", ""
	switch {
	case !m.unfolded(p.event):
		mark, text = "▸ ", m.events.rowOf(p.event)
	case p.line == 0:
		mark = "▾ "
		fallthrough
	default:
		lines := m.events.linesOf(p.event)
		text = lines[min(p.line, len(lines)-1)]
	}
	text = ansi.Cut(text, m.left, m.left+max(0, m.width-2))
	if p == m.at {
		return reverse + pad(mark+ansi.Strip(text), m.width) + plain
	}
	return ansi.Truncate(mark+text, m.width, "") + plain
}

// status is the line of what is typed, of what there is to say, or of where the cursor is.
func (m *model) status() string {
	if p := m.prompt; p != nil {
		return ansi.TruncateLeft(p.label+string(p.text), max(0, ansi.StringWidth(p.label+string(p.text))-m.width+1), "")
	}
	where := fmt.Sprintf("%d of %d", min(m.at.event+1, m.state.events), m.state.events)
	if !m.state.ended {
		where += ", reading…"
	}
	if m.specs != "" {
		where += "  SPEC " + m.specs
	}
	text := where
	if m.message != "" {
		text = m.message + "   (" + where + ")"
	}
	return ansi.Truncate(terminal.Name(text), m.width, "…")
}
