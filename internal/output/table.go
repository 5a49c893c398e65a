// SPDX-License-Identifier: Apache-2.0

package output

import (
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A table lays out text in columns, each as wide as its widest cell. Its memory is reused
// for the next table.
type table struct {
	columns []column
	cells   []cell // len(columns) for each row
	text    []byte // of all cells
	colour  bool   // cells have styles
	most    int    // limit on the width of the last column's cells; 0 means none
}

// A column says how to place its cells.
type column struct {
	right bool // right-aligned
	least int  // least width
	gap   int  // blanks after it
	width int  // width of its widest cell
}

// A cell is a part of the table's text.
type cell struct {
	start, end, width int
	style             terminal.Style
}

// reset empties the table.
func (t *table) reset() {
	t.cells, t.text = t.cells[:0], t.text[:0]
	for i := range t.columns {
		t.columns[i].width = t.columns[i].least
	}
}

// row starts a row of empty cells and returns its number.
func (t *table) row() int {
	n := len(t.cells) / len(t.columns)
	for range t.columns {
		t.cells = append(t.cells, cell{})
	}
	return n
}

// set makes the text appended to t.text since start the cell of the last row in this
// column.
func (t *table) set(column, start int) {
	c := cell{start: start, end: len(t.text), width: utf8.RuneCount(t.text[start:])}
	t.cells[len(t.cells)-len(t.columns)+column] = c
	t.columns[column].width = max(t.columns[column].width, c.width)
}

// paint gives a cell of the last row a style, if the table has colours.
func (t *table) paint(column int, s terminal.Style) {
	if t.colour {
		t.cells[len(t.cells)-len(t.columns)+column].style = s
	}
}

// put sets a cell of the last row.
func (t *table) put(column int, s string) {
	start := len(t.text)
	t.text = append(t.text, s...)
	t.set(column, start)
}

// setFrame sets two cells of the last row: the function's name, with a dot if it was
// inlined, and its source line.
func (t *table) setFrame(column int, f *symbols.Frame) {
	start := len(t.text)
	if f.Inlined {
		t.text = append(t.text, ". "...)
	}
	t.text = f.AppendName(t.text)
	t.set(column, start)
	if f.File == "" {
		return
	}
	start = len(t.text)
	t.text = append(f.AppendSource(append(t.text, '(')), ')')
	t.set(column+1, start)
}

// at returns where a column starts.
func (t *table) at(column int) int {
	n := 0
	for _, c := range t.columns[:column] {
		n += c.width + c.gap
	}
	return n
}

// appendRow appends a row and a newline, without trailing blanks.
func (t *table) appendRow(dst []byte, row int) []byte {
	blanks := 0
	for i, c := range t.cells[row*len(t.columns):][:len(t.columns)] {
		col := &t.columns[i]
		pad := max(0, col.width-c.width)
		if col.right {
			blanks, pad = blanks+pad, 0
		}
		if c.width > 0 {
			dst = appendPainted(appendBlanks(dst, blanks), t.text[c.start:c.end], c.style)
			blanks = 0
			if i == len(t.columns)-1 {
				dst = cutLines(dst, len(dst)-(c.end-c.start), t.most)
			}
		} else if col.right {
			pad = 0
		}
		blanks += pad + col.gap
	}
	return append(dst, '\n')
}

// appendRule appends a row of dashes, as wide as the columns in use.
func (t *table) appendRule(dst []byte, columns int) []byte {
	for i, c := range t.columns[:columns] {
		for range c.width {
			dst = append(dst, '-')
		}
		if i < columns-1 {
			dst = appendBlanks(dst, c.gap)
		}
	}
	return append(dst, '\n')
}

func appendBlanks(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, ' ')
	}
	return dst
}

// appendPainted appends text in a style.
func appendPainted(dst, text []byte, s terminal.Style) []byte {
	if s == terminal.Plain {
		return append(dst, text...)
	}
	return terminal.AppendStyle(append(terminal.AppendStyle(dst, s), text...), terminal.Plain)
}
