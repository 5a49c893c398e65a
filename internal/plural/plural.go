// SPDX-License-Identifier: Apache-2.0

// Package plural writes counts as people do: "1 call", "2 calls".
package plural

import (
	"fmt"
	"strings"
)

// A Number can count.
type Number interface {
	~int | ~int64 | ~uint32 | ~uint64
}

// Of returns a number and what it counts: see Text.
func Of[N Number](n N, text string) string { return fmt.Sprint(n, " ", Text(n, text)) }

// Text returns a text for a count of n. Braces hold what differs between one and many: the ending
// of many, as in "call{s}", or both, as in "{entry|entries}". Of one, the first is written.
func Text[N Number](n N, text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		forms, after, _ := strings.Cut(rest, "}")
		one, many, both := strings.Cut(forms, "|")
		if !both {
			one, many = "", forms
		}
		if n == 1 {
			many = one
		}
		b.WriteString(many)
		text = after
	}
}
