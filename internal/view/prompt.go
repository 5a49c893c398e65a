// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// A prompt is a line that is being typed.
type prompt struct {
	label string
	text  []rune
	at    int // of the cursor
	done  func(text string) tea.Cmd
}

// key takes a key, and reports whether the line is complete, or given up.
func (p *prompt) key(k tea.KeyPressMsg) (complete, givenUp bool) {
	switch k.String() {
	case "enter":
		return true, false
	case "esc", "ctrl+c":
		return false, true
	case "backspace":
		if len(p.text) == 0 {
			return false, true
		}
		p.cut(max(0, p.at-1))
	case "delete":
		if p.at < len(p.text) {
			p.at++
			p.cut(p.at - 1)
		}
	case "left":
		p.at = max(0, p.at-1)
	case "right":
		p.at = min(len(p.text), p.at+1)
	case "home", "ctrl+a":
		p.at = 0
	case "end", "ctrl+e":
		p.at = len(p.text)
	case "ctrl+u":
		p.cut(0)
	case "ctrl+w":
		from := p.at
		for from > 0 && p.text[from-1] == ' ' {
			from--
		}
		for from > 0 && p.text[from-1] != ' ' {
			from--
		}
		p.cut(from)
	default:
		p.insert(k.Text)
	}
	return false, false
}

// cut takes away what lies between a place and the cursor.
func (p *prompt) cut(from int) {
	p.text = slices.Delete(p.text, from, p.at)
	p.at = from
}

// insert inserts what is printable of a text.
func (p *prompt) insert(text string) {
	more := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	p.text = slices.Insert(p.text, p.at, more...)
	p.at += len(more)
}
