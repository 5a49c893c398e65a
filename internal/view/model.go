// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// A Source is a recording that can be read from its begin, as often as somebody wants.
type Source interface {
	// Read understands SPECs, and returns what collects the events that they ask for. read is then called
	// once, in another goroutine: it reads the events, and returns what is missing, in lines.
	Read(specs string, s *Store) (c *Collector, read func() (notes string, err error), err error)
	// Name is that of the recording.
	Name() string
}

// Options say what is shown.
type Options struct {
	Source Source
	Specs  string // at first
	Colour bool
	// Matcher understands what is searched.
	Matcher func(text string) (func([]byte) bool, error)
}

// A model is the state of the terminal. Only bubbletea's goroutine changes it.
type model struct {
	Options
	events *events
	state  state
	specs  string // that are answered
	title  string // names the recording, its host and kernel

	width, lines int // of the terminal
	at, top      position
	left         int // columns that are scrolled out
	allUnfolded  bool
	others       map[int]bool // events that are not as allUnfolded says

	prompt  *prompt
	search  *search
	scan    *scan
	message string
	panel   []string // what is shown in place of the list
	from    int      // the first of its lines that is shown
	refused string   // SPECs that were typed and not understood
	ticking bool     // a tickMsg is on its way
	doing   map[string]func(*model) tea.Cmd
}

// read begins to read what SPECs ask for. After an error all is as it was.
func (m *model) read(specs string) error {
	s := newStore()
	c, read, err := m.Source.Read(specs, s)
	if err != nil {
		return err
	}
	if m.events != nil {
		m.events.store.drop()
	}
	m.events = newEvents(c, m.Colour)
	m.title = m.titleOf(&c.run)
	m.specs, m.at, m.top, m.left, m.others, m.allUnfolded, m.scan, m.state = specs, position{}, position{}, 0, map[int]bool{}, false, nil, state{}
	go func() {
		notes, err := read()
		s.end(notes, err)
	}()
	return nil
}

// tickMsg has the model look at what was read.
type tickMsg struct{}

// tick waits until it is time to look again.
func tick() tea.Cmd {
	return tea.Tick(100*time.Millisecond, func(time.Time) tea.Msg { return tickMsg{} })
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.lookOn() }

// lookOn has the model look at what is read, unless it does.
func (m *model) lookOn() tea.Cmd {
	if m.ticking {
		return nil
	}
	m.ticking = true
	return func() tea.Msg { return tickMsg{} }
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.lines = msg.Width, msg.Height
		m.follow()
	case tickMsg:
		return m, m.looked()
	case scanMsg:
		return m, m.scanOn(msg.scan)
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.insert(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// looked takes over what was read in the meantime.
func (m *model) looked() tea.Cmd {
	was := m.state
	if m.state = m.events.store.state(); was.events == 0 {
		m.follow()
	}
	if m.state.ended {
		m.ticking = false
		m.sayEnd()
		return nil
	}
	return tick()
}

// sayEnd says what is missing, once all was read.
func (m *model) sayEnd() {
	switch err := m.state.err; {
	case errors.Is(err, errFull):
		m.message = fmt.Sprintf("only the first %d events are here, there is no room for more: choose fewer with f SPEC, --since or -p", m.state.events)
	case err != nil:
		m.message = "it ends early: " + err.Error()
	case m.state.notes != "":
		lines := strings.Split(strings.TrimSpace(m.state.notes), "\n")
		if m.message = strings.TrimPrefix(lines[0], "ksnoop: "); len(lines) > 1 {
			m.message = fmt.Sprintf("%s (and %d more)", m.message, len(lines)-1)
		}
	case m.state.events == 0:
		m.message = "no recorded call or session matches"
	}
}

// lacking says in the title what a message has said before: that not all of the recording is here.
func (m *model) lacking() string {
	switch {
	case m.state.err == nil:
		return ""
	case errors.Is(m.state.err, errFull):
		return " · not all of it"
	}
	return " · ends early"
}

// key does what a key is for.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case m.prompt != nil:
		return m.promptKey(k)
	case m.panel != nil && m.scrollPanel(k.String()):
		return nil
	}
	scanned := m.scan != nil
	m.scan, m.message = nil, ""
	do := m.doing[k.String()]
	switch {
	case do == nil && scanned:
		m.message = "stopped"
	case do == nil:
		m.message = "? shows what keys do"
	default:
		return do(m)
	}
	return nil
}

func (m *model) promptKey(k tea.KeyPressMsg) tea.Cmd {
	p := m.prompt
	complete, givenUp := p.key(k)
	if complete || givenUp {
		m.prompt = nil
	}
	if complete {
		return p.done(string(p.text))
	}
	return nil
}

// scrollPanel takes a key while a panel is shown: keys that move scroll it, all others close it. It reports whether
// that was all.
func (m *model) scrollPanel(key string) bool {
	most := max(0, len(m.wrapped())-m.rows())
	switch key {
	case "down", "j":
		m.from = min(most, m.from+1)
	case "up", "k":
		m.from = max(0, m.from-1)
	case "pgdown", "space":
		m.from = min(most, m.from+m.rows())
	case "pgup", "b":
		m.from = max(0, m.from-m.rows())
	default:
		m.panel = nil
		return key != "f" && key != "ctrl+c"
	}
	return true
}

// show shows a panel.
func (m *model) show(lines []string) { m.panel, m.from = lines, 0 }

// unfold unfolds an event, or folds it.
func (m *model) unfold(event int, on bool) {
	if on == m.unfolded(event) || m.state.events == 0 {
		return
	}
	if m.others[event] = !m.others[event]; !m.others[event] {
		delete(m.others, event)
	}
	if !on && m.at.event == event {
		m.at.line = 0
	}
	m.follow()
}

// unfoldAll unfolds all events, or folds them.
func (m *model) unfoldAll() {
	m.allUnfolded, m.others = !m.allUnfolded, map[int]bool{}
	m.at.line, m.top = 0, position{event: m.at.event}
	m.follow()
}

// askSearch asks what to search.
func (m *model) askSearch() {
	m.prompt = &prompt{label: "/", done: func(text string) tea.Cmd {
		if text == "" && m.search == nil {
			return nil
		}
		if text != "" {
			match, err := m.Matcher(text)
			if err != nil {
				m.message = err.Error()
				return nil
			}
			m.search = &search{text, match}
		}
		return m.look(1)
	}}
}

// askSpecs asks for SPECs, those that are answered or were refused.
func (m *model) askSpecs() {
	text := []rune(m.specs)
	if m.refused != "" {
		text = []rune(m.refused)
	}
	m.prompt = &prompt{label: "SPEC: ", text: text, at: len(text), done: func(text string) tea.Cmd {
		text = strings.TrimSpace(text)
		if err := m.read(text); err != nil {
			m.refused = text
			m.show(append(strings.Split(err.Error(), "\n"), "", "Any key goes back, f mends the SPEC."))
			return nil
		}
		m.refused = ""
		return m.lookOn()
	}}
}
