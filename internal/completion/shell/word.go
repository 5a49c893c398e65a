// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Dialect is the way in which a shell quotes.
type Dialect uint8

const (
	Bash Dialect = iota
	Zsh
	Fish
)

// Named returns a dialect by the name of its shell.
func Named(name string) (d Dialect, ok bool) {
	switch name {
	case "bash":
		return Bash, true
	case "zsh":
		return Zsh, true
	case "fish":
		return Fish, true
	}
	return 0, false
}

// A quote is what quotes the text at the cursor.
type quote uint8

const (
	bare   quote = iota // nothing
	single              // '
	double              // "
	ansiC               // $'
)

// A Word is one word of a command line.
type Word struct {
	Text  string // as the program will be given it
	raw   string // as it was typed
	quote quote  // that is still open at its end
	// acted are the places in raw of characters that the shell would act on, such as a $ in double quotes.
	acted []int
}

// bareSpecial are the characters that shells act on where nothing is quoted.
const bareSpecial = " \t\n|&;()<>$`\\\"'*?[]{}~#!^"

// breaks are the characters that end a word.
const breaks = " \t\n|&;()<>"

// patterns are those that are a part of a word, where the shell looks for files with such names.
const patterns = "()*?[]<>|&;"

// A reader reads words.
type reader struct {
	dialect Dialect
	text    string
	pos     int
}

// Words reads a command line up to the cursor. The last word is the one at the cursor, which may be empty.
func (d Dialect) Words(line string) []Word {
	r := reader{dialect: d, text: line}
	var words []Word
	for {
		for r.pos < len(line) && strings.IndexByte(breaks, line[r.pos]) >= 0 {
			r.pos++
		}
		words = append(words, r.word(breaks))
		if r.pos == len(line) {
			return words
		}
	}
}

// Word reads one word that the shell has taken out of its line already.
func (d Dialect) Word(raw string) Word {
	r := reader{dialect: d, text: raw}
	return r.word("")
}

// word reads a word, up to one of some characters that is not quoted.
func (r *reader) word(end string) (w Word) {
	start := r.pos
	var text strings.Builder
	for r.pos < len(r.text) {
		c := r.text[r.pos]
		if w.quote == bare && strings.IndexByte(end, c) >= 0 {
			break
		}
		r.pos++
		switch {
		case w.quote == bare && c == '\'', w.quote == bare && c == '"':
			w.quote = single
			if c == '"' {
				w.quote = double
			}
		case w.quote == bare && c == '$' && r.dialect != Fish && r.pos < len(r.text) && r.text[r.pos] == '\'':
			w.quote = ansiC
			r.pos++
		case (w.quote == single || w.quote == ansiC) && c == '\'', w.quote == double && c == '"':
			w.quote = bare
		case c == '\\' && r.escapes(w.quote):
			text.WriteByte(r.text[r.pos])
			r.pos++
		case c == '$' && w.quote != single && w.quote != ansiC, w.quote == bare && strings.IndexByte(patterns, c) >= 0:
			w.acted = append(w.acted, r.pos-1-start)
			text.WriteByte(c)
		default:
			text.WriteByte(c)
		}
	}
	w.Text, w.raw = text.String(), r.text[start:r.pos]
	return w
}

// escapes reports whether a backslash takes away the meaning of the next character.
func (r *reader) escapes(q quote) bool {
	if r.pos == len(r.text) {
		return false
	}
	next := r.text[r.pos]
	switch q {
	case single:
		return r.dialect == Fish && (next == '\\' || next == '\'')
	case double:
		return strings.IndexByte("$`\"\\", next) >= 0 && (r.dialect != Fish || next != '`')
	case ansiC:
		return next == '\\' || next == '\''
	}
	return true
}

// Plain reports whether the word can be passed on in a line: nothing of it is a line break or another
// character that a terminal acts on.
func (w *Word) Plain() bool {
	return strings.IndexFunc(w.raw, func(r rune) bool { return r < ' ' || r == utf8.RuneError || !unicode.IsPrint(r) }) < 0
}

// extend returns the word as it is typed with more text at its end. The quote that is open stays
// open. What the shell would act on is quoted: a SPEC means the $ itself.
func (w *Word) extend(d Dialect, text string) string {
	var b strings.Builder
	from := 0
	for _, at := range w.acted {
		b.WriteString(w.raw[from:at])
		b.WriteByte('\\')
		from = at
	}
	b.WriteString(w.raw[from:])
	b.WriteString(d.quoted(w.quote, text))
	return b.String()
}

// quoted returns text as it is typed inside a quote.
func (d Dialect) quoted(q quote, text string) string {
	special := bareSpecial
	switch q {
	case single:
		if d == Fish {
			special = `\'`
			break
		}
		return strings.ReplaceAll(text, "'", `'\''`)
	case double:
		special = "$\"\\"
		if d != Fish {
			special += "`"
		}
	case ansiC:
		special = `\'`
	}
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
