// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/charmbracelet/x/ansi"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// An events is a Store with what turns its events into lines. It belongs to the goroutine of the terminal.
type events struct {
	*Collector
	colour bool
	lines  map[int][]string // of some events
	held   int              // bytes of lines, about
	rows   map[int]string   // the first lines of some events: more of them are seen at once
}

// newEvents returns the events of a Collector.
func newEvents(c *Collector, colour bool) *events {
	return &events{Collector: c, colour: colour, lines: map[int][]string{}, rows: map[int]string{}}
}

// Bounds of what is kept as lines, besides the event that was looked at last.
const (
	keptLines = 8 << 20 // bytes of lines
	keptRows  = 512     // events of which the first line is kept
	keptRow   = 16 << 10
)

// tab is how far the stops of tabs are apart.
const tab = 8

// linesOf returns the lines of an event, each safe to show: the one that stands for it, and those that are shown
// when it is unfolded.
func (e *events) linesOf(i int) []string {
	if lines, ok := e.lines[i]; ok {
		return lines
	}
	text, err := e.text(i)
	lines := safe(text, e.colour)
	if err != nil {
		lines = []string{"this event cannot be shown: " + terminal.Name(err.Error())}
	}
	size := sizeOf(lines)
	if e.held+size > keptLines {
		clear(e.lines)
		e.held = 0
	}
	e.lines[i], e.held = lines, e.held+size
	return lines
}

// sizeOf returns about how many bytes lines take.
func sizeOf(lines []string) (n int) {
	for _, line := range lines {
		n += len(line) + int(unsafe.Sizeof(line))
	}
	return n
}

// forget drops the lines of an event.
func (e *events) forget(i int) {
	e.held -= sizeOf(e.lines[i])
	delete(e.lines, i)
}

// rowOf returns the line that stands for an event.
func (e *events) rowOf(i int) string {
	if row, ok := e.rows[i]; ok {
		return row
	}
	row := e.linesOf(i)[0]
	if len(row) > keptRow {
		return row
	}
	if len(e.rows) >= keptRows {
		clear(e.rows)
	}
	e.rows[i] = strings.Clone(row) // its event's text can go
	return row
}

// text returns the text of an event.
func (e *events) text(i int) ([]byte, error) {
	kind, raw, err := e.store.event(i)
	if err != nil || kind == kindText {
		return raw, err
	}
	call, err := e.parseCall(raw)
	if err != nil {
		return nil, err
	}
	row, err := e.texts.Row.AppendCall(nil, call)
	if err != nil {
		return nil, err
	}
	if end := bytes.IndexByte(row, '\n'); end >= 0 {
		row = row[:end+1]
	}
	return e.texts.Call.AppendCall(row, call)
}

// safe returns the lines of a text as a terminal may show them, without empty ones at the end.
func safe(text []byte, colour bool) []string {
	var out strings.Builder
	w := terminal.NewWriter(&out)
	w.Colour(colour)
	_, _ = w.Write(text) // a Builder takes all
	_ = w.Flush()
	lines := strings.Split(out.String(), "\n")
	for len(lines) > 1 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		lines[i] = untabbed(line)
	}
	return slices.Clip(lines)
}

// untabbed returns a line with blanks in place of tabs. Tabs are where ksnoop has put them, at the begin of lines.
func untabbed(line string) string {
	return strings.ReplaceAll(line, "\t", strings.Repeat(" ", tab))
}

// pad returns a text that is as wide as some columns.
func pad(text string, columns int) string {
	text = ansi.Truncate(text, columns, "…")
	return text + strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
}
