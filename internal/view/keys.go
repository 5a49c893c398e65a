// SPDX-License-Identifier: Apache-2.0

package view

import tea "charm.land/bubbletea/v2"

// An action is what keys are for.
type action struct {
	keys []string // as bubbletea calls them
	help string
	do   func(m *model) tea.Cmd
}

// moves makes an action of a move.
func moves(move func(m *model)) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd {
		move(m)
		return nil
	}
}

// actions returns all there are, as the page of help lists them.
func actions() []action {
	return []action{
		{[]string{"down", "j"}, "a line down", moves(func(m *model) { m.move(1) })},
		{[]string{"up", "k"}, "a line up", moves(func(m *model) { m.move(-1) })},
		{[]string{"pgdown", "ctrl+f"}, "a page down", moves(func(m *model) { m.page(m.rows()) })},
		{[]string{"pgup", "ctrl+b", "b"}, "a page up", moves(func(m *model) { m.page(-m.rows()) })},
		{[]string{"ctrl+d", "d"}, "half a page down", moves(func(m *model) { m.page(m.rows() / 2) })},
		{[]string{"ctrl+u", "u"}, "half a page up", moves(func(m *model) { m.page(-m.rows() / 2) })},
		{[]string{"home", "g"}, "to the first event", moves(func(m *model) { m.moveTo(position{}) })},
		{[]string{"end", "G"}, "to the last event", moves(func(m *model) { m.moveTo(position{event: m.state.events - 1}) })},
		{[]string{"right", "l"}, "to the right, in long lines", moves(func(m *model) { m.left += m.width / 2 })},
		{[]string{"left", "h"}, "to the left", moves(func(m *model) { m.left = max(0, m.left-m.width/2) })},
		{[]string{"enter", "space"}, "unfold the event, or fold it", moves(func(m *model) { m.unfold(m.at.event, !m.unfolded(m.at.event)) })},
		{[]string{"o"}, "unfold all, or fold all", moves((*model).unfoldAll)},
		{[]string{"]", "tab"}, "to the next event", moves(func(m *model) { m.moveTo(position{event: min(m.at.event+1, m.state.events-1)}) })},
		{[]string{"[", "shift+tab"}, "to the event before", moves(func(m *model) { m.moveTo(position{event: max(0, m.at.event-1)}) })},
		{[]string{"e"}, "to the next failure", moves(func(m *model) { m.nextError(1) })},
		{[]string{"E"}, "to the failure before", moves(func(m *model) { m.nextError(-1) })},
		{[]string{"/"}, "search a text, or a /REGEXP/", moves((*model).askSearch)},
		{[]string{"n"}, "to the next match", func(m *model) tea.Cmd { return m.look(1) }},
		{[]string{"N"}, "to the match before", func(m *model) tea.Cmd { return m.look(-1) }},
		{[]string{"f"}, "filter by SPECs: vfs_read(count, return < 0)", moves((*model).askSpecs)},
		{[]string{"?"}, "this page", moves(func(m *model) { m.show(helpPage()) })},
		{[]string{"ctrl+z"}, "suspend", func(*model) tea.Cmd { return tea.Suspend }},
		{[]string{"q", "ctrl+c"}, "quit", func(*model) tea.Cmd { return tea.Quit }},
	}
}

// helpLine is what is always said of keys.
const helpLine = "q quit  ⏎ unfold  / search  n N  e E failures  f SPEC  ? keys"

// helpPage returns the lines that say what keys do.
func helpPage() []string {
	lines := []string{"Keys", ""}
	for _, a := range actions() {
		names := ""
		for i, k := range a.keys {
			if i > 0 {
				names += ", "
			}
			names += k
		}
		lines = append(lines, "  "+pad(names, 18)+a.help)
	}
	return append(lines, "", "A failure is a call or a session that failed, or a place where records are missing.")
}
