// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// values are those of an event, by what the SPEC calls them.
type values struct {
	event  *event.Event
	fields []output.Field
}

// textItem is the item of a SPEC that reads the string to which an argument of the process points.
func textItem(arg string) string { return "ustr((char *)" + arg + ")" }

// has reports whether the SPEC asks for a value, whether or not it could be read.
func (v values) has(label string) bool {
	return slices.ContainsFunc(v.fields, func(f output.Field) bool { return f.Label() == label })
}

// number returns a number; 0 if it could not be read.
func (v values) number(label string) uint64 {
	for _, f := range v.fields {
		if scalar, _ := f.Slots(); scalar != nil && f.Label() == label {
			if n, ok := v.event.Value(scalar); ok {
				return n
			}
		}
	}
	return 0
}

// text returns a string; nil if it could not be read.
func (v values) text(label string) *string {
	for _, f := range v.fields {
		if f.Label() == label {
			if raw, _ := f.Target(v.event); raw != nil {
				text := string(raw)
				return &text
			}
		}
	}
	return nil
}
