// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// fewNames is how many functions are named one by one.
const fewNames = 4

// A remark is what is to be said of one function.
type remark struct {
	name, text string
	items      string // what a SPEC asks of it, where it is about that SPEC
}

// subject is what the remark is about.
func (r remark) subject() string { return r.name + r.items }

// maxItems is how much of a SPEC's items a remark quotes, in bytes.
const maxItems = 60

// about says that a remark is about the SPEC of a probe.
func (r remark) about(p *plan.Probe) remark {
	if p.Spec == nil || !p.Spec.Parens {
		return r
	}
	r.items = itemsText(p.Spec)
	if len(r.items) > maxItems {
		r.items = strings.ToValidUTF8(r.items[:maxItems], "") + "..."
	}
	return r
}

// itemsText is what a SPEC has behind its selector.
func itemsText(s *expr.Spec) string { return strings.TrimSpace(s.Text[s.Selector.Span.End:]) }

// remarkOn returns the reason for what befell a function, on one line.
func remarkOn(name string, why error) remark {
	return remark{name: name, text: strings.TrimSpace(reasonText(why))}
}

// reasonText is a reason on one line; of a SPEC's faults, what they say. How to
// mend a SPEC is no matter of those functions that it was not meant for.
func reasonText(err error) string {
	var faults *expr.ErrorList
	if errors.As(err, &faults) {
		var texts []string
		for _, e := range faults.Errors {
			texts = append(texts, e.Msg)
		}
		return strings.Join(texts, "; ")
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// notOpen is what is to be said of a function that the kernel lets nobody trace.
func notOpen(name string) remark {
	return remark{name: name, text: "not open to tracing (" + kernel.RefusedBecause + ")"}
}

// grouped brings remarks together that say the same, each of its own function.
func grouped(remarks []remark) (groups [][]remark) {
	index := map[string]int{}
	for _, r := range remarks {
		key := r.impersonal()
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// sharedText is what a group of remarks says.
func sharedText(group []remark) string {
	if first := group[0]; len(group) > 1 && first.impersonal() != first.text {
		return "for example, " + first.text
	}
	return group[0].text
}

// impersonal is the text with a NUL where the name of the function is.
func (r remark) impersonal() string {
	if r.name == "" {
		return r.text
	}
	var b strings.Builder
	for last, text := byte(' '), r.text; text != ""; {
		if rest, found := strings.CutPrefix(text, r.name); found && !nameByte(last) && (rest == "" || !nameByte(rest[0])) {
			b.WriteByte(0)
			text, last = rest, ' '
			continue
		}
		last = text[0]
		b.WriteByte(last)
		text = text[1:]
	}
	return b.String()
}

// sayGroups logs remarks: each by itself, or one for all that say the same where
// these are many. what says what they are about.
func sayGroups(what string, remarks []remark, say func(function, text string)) {
	for _, group := range grouped(remarks) {
		if len(group) <= fewNames {
			for _, r := range group {
				say(r.subject(), r.text)
			}
			continue
		}
		names := make([]string, fewNames)
		for i := range names {
			names[i] = group[i].name
		}
		say(fmt.Sprintf("%d %s (%s, ...)", len(group), what, strings.Join(names, ", ")), sharedText(group))
	}
}

// nameByte reports whether a character can be part of a function's name.
func nameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
