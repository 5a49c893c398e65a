// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/ksnoop/ksnoop/expr"
)

// Place says where in the file an error of a request is: a fault of a SPEC at its column, what begins with
// an option at its key, and all else at the name of the request.
func (c *Config) Place(r *Request, err error) error { return sorted(c.place(r, err)) }

func (c *Config) place(r *Request, err error) (l Faults) {
	if list, ok := err.(*expr.ErrorList); ok {
		return c.placeSpec(r, list)
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			l = append(l, c.place(r, inner)...)
		}
		return l
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && hasSpec(inner) {
			return c.place(r, inner)
		}
	}
	at := r.name
	if found := leadingOption.FindStringSubmatch(err.Error()); found != nil {
		if key := r.keys[found[1]]; key != nil {
			at = key
		}
	}
	return Faults{{c.file, at.Line, at.Column, "request " + r.Name + ": " + err.Error()}}
}

// leadingOption is what most messages about options begin with.
var leadingOption = regexp.MustCompile(`^--([a-z0-9-]+)`)

// hasSpec reports whether an error has faults of a SPEC in it.
func hasSpec(err error) bool {
	switch e := err.(type) {
	case *expr.ErrorList:
		return true
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if hasSpec(inner) {
				return true
			}
		}
	case interface{ Unwrap() error }:
		return hasSpec(e.Unwrap())
	}
	return false
}

func (c *Config) placeSpec(r *Request, list *expr.ErrorList) (l Faults) {
	at := r.name
	for _, n := range r.texts {
		if n.Value == list.Text {
			at = n
			break
		}
	}
	lead, exact := c.lead(at, list.Text)
	for _, e := range list.Errors {
		f := &Fault{c.file, at.Line, at.Column, e.Error()}
		start := min(max(e.Span.Start, 0), len(list.Text))
		if exact {
			f.Column += lead + utf8.RuneCountInString(list.Text[:start])
		} else {
			f.Text = fmt.Sprintf("column %d of the SPEC: %s", start+1, f.Text)
		}
		l = append(l, f)
	}
	return l
}

// lead returns how many characters stand before the text of a value. exact is false if the file has it
// otherwise: escaped, folded, or over several lines.
func (c *Config) lead(n *yaml.Node, text string) (lead int, exact bool) {
	line := c.text
	for i := 1; i < n.Line; i++ {
		var more bool
		if _, line, more = strings.Cut(line, "\n"); !more {
			return 0, false
		}
	}
	line, _, _ = strings.Cut(line, "\n")
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		if line == "" {
			return 0, false
		}
		lead, line = 1, line[1:]
	}
	return lead, strings.HasPrefix(line, text)
}
