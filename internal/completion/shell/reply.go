// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"
	"unicode/utf8"
)

// A Candidate is one completion of the word at the cursor.
type Candidate struct {
	Text  string // follows what has been typed, without quoting
	Name  string // to be shown; "" for the whole word
	About string
}

// A Reply is what a shell is told.
type Reply struct {
	Candidates []Candidate
	// Open says that the word goes on behind the candidate: no blank is to follow, and its quote stays
	// open.
	Open bool
}

// Bash writes the reply for the function of bash's completion, one line for each candidate. The line ends
// with typed, which is the part of the word that readline replaces. list says that candidates are only
// shown, in so many columns.
func (r *Reply) Bash(w *Word, typed string, list bool, columns int) []byte {
	var out []byte
	if list && len(r.Candidates) > 1 {
		return r.table(w, columns)
	}
	before := w.raw[:max(0, len(w.raw)-len(typed))]
	for _, c := range r.Candidates {
		whole := w.extend(Bash, c.Text)
		if rest, ok := strings.CutPrefix(whole, before); ok {
			whole = rest
		} else {
			whole = typed + Bash.quoted(w.quote, c.Text)
		}
		out = append(append(out, whole...), '\n')
		if r.Open && len(r.Candidates) == 1 && w.quote != bare {
			// For a single one readline would close the quote. Of two it inserts what both begin with.
			out = append(append(out, whole...), " \n"...)
		}
	}
	return out
}

// table lists candidates with what they are, a line each, in so many columns.
func (r *Reply) table(w *Word, columns int) (out []byte) {
	for _, line := range r.lines(w, columns) {
		out = append(append(out, line...), '\n')
	}
	return out
}

// lines are what is shown of the candidates.
func (r *Reply) lines(w *Word, columns int) []string {
	width := 0
	for _, c := range r.Candidates {
		width = max(width, utf8.RuneCountInString(c.shown(w)))
	}
	lines := make([]string, len(r.Candidates))
	for i, c := range r.Candidates {
		line := c.shown(w)
		if c.About != "" {
			line += strings.Repeat(" ", width-utf8.RuneCountInString(line)) + "  (" + c.About + ")"
		}
		if runes := []rune(line); columns > leastColumns && len(runes) >= columns {
			line = string(runes[:columns-2]) + "…"
		}
		lines[i] = line
	}
	return lines
}

// leastColumns are too few to cut anything to.
const leastColumns = 8

// shown returns what is shown of a candidate.
func (c *Candidate) shown(w *Word) string {
	if c.Name != "" {
		return c.Name
	}
	return w.Text + c.Text
}

// Zsh writes the reply for zsh: for each candidate a line with the whole word as it is typed, and one
// with what is shown.
func (r *Reply) Zsh(w *Word, columns int) (out []byte) {
	lines := r.lines(w, columns)
	for i, c := range r.Candidates {
		out = append(append(out, w.extend(Zsh, c.Text)...), '\n')
		out = append(append(out, lines[i]...), '\n')
	}
	return out
}

// Fish writes the reply for fish, which quotes by itself: for each candidate a line with the whole word,
// without quotes, and what it is.
func (r *Reply) Fish(w *Word) (out []byte) {
	for _, c := range r.Candidates {
		out = append(append(out, w.Text+c.Text...), '\t')
		out = append(append(out, c.About...), '\n')
	}
	if r.Open && len(r.Candidates) == 1 {
		// For a single one fish would close the quote. Of two it inserts what both begin with.
		out = append(append(out, w.Text+r.Candidates[0].Text...), " \t\n"...)
	}
	return out
}
