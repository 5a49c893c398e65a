// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"
	"testing"
)

// screen is what a terminal of so many rows and columns shows after text was written to it that
// has only the sequences of Redraw, and printable characters. A line that is too long, or one too
// many, fails the test.
func screen(t *testing.T, shown []string, rows, columns int, text string) []string {
	t.Helper()
	grid := make([][]byte, rows)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", columns))
		if i < len(shown) {
			copy(grid[i], shown[i])
		}
	}
	row, column := rows-1, 0
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "\x1b[H"):
			row, column, i = 0, 0, i+2
		case strings.HasPrefix(rest, "\x1b[K"):
			copy(grid[row][column:], strings.Repeat(" ", columns))
			i += 2
		case strings.HasPrefix(rest, "\x1b[J"):
			copy(grid[row][column:], strings.Repeat(" ", columns))
			for _, below := range grid[row+1:] {
				copy(below, strings.Repeat(" ", columns))
			}
			i += 2
		case rest[0] == '\r':
			column = 0
		case rest[0] == '\n':
			if row++; row == rows {
				t.Fatalf("%q scrolls", text)
			}
		case rest[0] < ' ' || column == columns:
			t.Fatalf("%q in row %d, column %d of %q", rest[0], row, column, text)
		default:
			grid[row][column] = rest[0]
			column++
		}
	}
	var out []string
	for _, line := range grid {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	return out
}

// TestRedraw: a terminal shows the text and nothing else, cut to what has room.
func TestRedraw(t *testing.T) {
	var shown []string
	for _, c := range []struct{ text, want string }{
		{"one\ntwo\n", "one|two||"}, {"three\x1b[2J\nf\n", `three\x1b[2J|f||`}, {"three\x1b\xff\xffx\n", `three\x1b\xff|||`}, {"0123456789abcdefgh\n", "0123456789abcdef|||"}, {"1\n2\n3\n4\n5\n", "1|2|3|..."}, {"a\nb\nc\n", "a|b|c|"}, {"", "|||"},
	} {
		var out strings.Builder
		if err := NewWriter(&out).draw([]byte(c.text), 4, 16); err != nil {
			t.Fatal(err)
		}
		shown = screen(t, shown, 4, 16, out.String())
		if got := strings.Join(shown, "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestRedrawColour: marks of styles take no columns, and a style ends with its line.
func TestRedrawColour(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out)
	w.Colour(true)
	if err := w.draw(append(AppendStyle(nil, Strong), "abcdef\nx"...), 0, 4); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[H\x1b[K\x1b[1mabcd\x1b[0m\r\n\x1b[Kx\x1b[0m\r\n\x1b[J"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
