// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// metric returns the name of an aggregation's families, without what its function adds, and their
// help.
func metric(g *expr.Aggregation) (name, help string) {
	if g.Fn == expr.AggCount {
		return "ksnoop_calls_total", "Calls."
	}
	name = "ksnoop_" + summary.ValidName(g.Of)
	switch g.Unit {
	case expr.UnitNanos:
		name += "_nanoseconds"
	case expr.UnitBytes:
		name += "_bytes"
	}
	return name, "Of calls: " + terminal.Name(g.Of) + "."
}

// reserved are labels that have a meaning of their own.
var reserved = []string{"le", "quantile", "table", "spec", "item", "value", "cause"}

// labelNames returns the names of the labels of an aggregation's keys.
func labelNames(g *expr.Aggregation) []string {
	names := slices.Clone(reserved)
	for i := range g.Keys {
		name := summary.ValidName(g.Keys[i].Label)
		for n := 2; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s_%d", summary.ValidName(g.Keys[i].Label), n)
		}
		names = append(names, name)
	}
	return names[len(reserved):]
}

// AppendLabel appends name="value", behind a comma if there are others.
func AppendLabel(dst []byte, name string, value []byte) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, name...), `="`...)
	for _, c := range terminal.AppendName(nil, value) { // which leaves no newline and no bad UTF-8
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// appendHelp appends the text of a HELP line.
func appendHelp(dst []byte, text string) []byte {
	for i := range len(text) {
		if text[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return dst
}

// AppendHead appends the lines that a family begins with.
func AppendHead(dst []byte, name, kind, help string) []byte {
	dst = append(appendHelp(append(append(append(dst, "# HELP "...), name...), ' '), help), '\n')
	return append(append(append(append(append(dst, "# TYPE "...), name...), ' '), kind...), '\n')
}
