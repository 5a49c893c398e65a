// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/completion/shell"
)

// TestCompleteWords: what the commands themselves complete, apart from SPECs.
func TestCompleteWords(t *testing.T) {
	for _, c := range []struct {
		line  []string
		wants []string // each with what is said of it, as far as it is given
	}{
		{[]string{"help", ""}, []string{"trace", "language: ", "formats: ", "sessions: ", "help"}},
		{[]string{"replay", "--for"}, []string{"mat: print in this FORMAT"}},
		{[]string{"doct"}, []string{"or: "}},
	} {
		var words []shell.Word
		for _, w := range c.line {
			words = append(words, shell.Word{Text: w})
		}
		reply, _ := completeWords(newRootCommand(new(int)), words)
		var got []string
		for _, candidate := range reply.Candidates {
			got = append(got, candidate.Text+": "+candidate.About)
		}
		for _, want := range c.wants {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%q: no %q in %q", c.line, want, got)
			}
		}
	}
}
