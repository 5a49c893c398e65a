// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Candidate is one way in which the text at the cursor can go on.
type Candidate struct {
	Text  string // follows the cursor
	Name  string // the whole word, to be shown
	About string // what it is: a type, a signature
}

// An Engine completes SPECs. The zero value of what is not View and Arch serves.
type Engine struct {
	View *kernel.View
	Arch string
	// Recorded is what a recording has, if that is asked in place of a kernel.
	Recorded *plan.Plan
	// SelectorOnly is set where a SPEC has no items, as in --deny.
	SelectorOnly bool
	// Files returns the source files whose paths begin with a prefix, from debug info. It may be nil.
	Files func(prefix string) []string

	// UserFile opens programs and libraries of user space, of which there are none if it is nil.
	UserFile plan.UserFile

	outlines map[string]types // by module
}

// mostListed is how many candidates are shown one by one. More functions or constants are shown by
// what their names begin with.
const mostListed = 100

// Complete returns the candidates for a text up to the cursor.
func (e *Engine) Complete(text string) []Candidate {
	if len(text) > expr.MaxLength {
		return nil
	}
	blank := len(text) - len(strings.TrimLeft(text, " \t"))
	end := strings.IndexAny(text[blank:], " \t()")
	if end < 0 {
		return clean(e.selectors(text[blank:]))
	}
	end += blank
	items := strings.TrimLeft(text[end:], " \t")
	if !strings.HasPrefix(items, "(") || e.SelectorOnly {
		return nil
	}
	selector := text[blank:end]
	if signature := strings.TrimLeft(items[1:], " \t"); strings.HasPrefix(signature, ":") {
		closed := strings.IndexByte(items, ')')
		if closed < 0 {
			return clean(e.signature(signature[1:]))
		}
		selector, items = selector+items[:closed+1], strings.TrimLeft(items[closed+1:], " \t")
		if !strings.HasPrefix(items, "(") {
			return nil
		}
	}
	s := scanned(items)
	if s.at == nowhere {
		return nil
	}
	t := e.target(selector)
	if t == nil {
		return nil
	}
	c := &completer{scan: s, engine: e, target: t}
	return clean(c.candidates())
}

// A completer completes the items of one SPEC.
type completer struct {
	*scan
	*target
	engine *Engine
	found  []Candidate
}

// add adds a word if it begins with what has been typed of it.
func (c *completer) add(name, about string) {
	if rest, ok := strings.CutPrefix(name, c.partial); ok {
		c.found = append(c.found, Candidate{Text: rest, Name: name, About: about})
	}
}

// candidates returns what can stand at the cursor.
func (c *completer) candidates() []Candidate {
	before := c.last().text
	switch {
	case c.at == memberPlace:
		c.members()
	case slices.Contains(kinds[:], before):
		c.types(before)
	case c.partial == "" && (c.at == operatorPlace || before == "*" && c.typed()):
		c.operators(len(c.tokens), strings.HasSuffix(c.text, " "))
		return c.found
	case c.at == operatorPlace: // two operands in a row
		return nil
	default:
		c.operands()
	}
	return c.finished()
}

// finished has the word go on if it is whole and no other begins with it. A parameter can have the name of
// a function.
func (c *completer) finished() []Candidate {
	whole := slices.ContainsFunc(c.found, func(f Candidate) bool { return f.Text == "" })
	if !whole || slices.ContainsFunc(c.found, func(f Candidate) bool { return f.Text != "" && f.Text != "(" }) {
		return c.found
	}
	s := scanned(c.text + " ")
	if s.at == nowhere {
		return nil
	}
	after := &completer{scan: s, engine: c.engine, target: c.target}
	after.operators(len(s.tokens), false)
	return append(after.found, slices.DeleteFunc(c.found, func(f Candidate) bool { return f.Text == "" })...)
}

// clean leaves out what nobody can type, and what a terminal would act on.
func clean(found []Candidate) []Candidate {
	found = slices.DeleteFunc(found, func(c Candidate) bool { return !terminal.IsPrintable(c.Text) || !terminal.IsPrintable(c.Name) })
	seen := map[string]bool{}
	found = slices.DeleteFunc(found, func(c Candidate) bool {
		double := seen[c.Text]
		seen[c.Text] = true
		return double
	})
	for i := range found {
		found[i].About = terminal.Name(found[i].About)
	}
	return found
}
