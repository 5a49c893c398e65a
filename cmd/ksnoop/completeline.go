// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/completion/shell"
)

// completionTime is how long a key may take. Then there are no candidates.
const completionTime = 3 * time.Second

// completionMemory is how many bytes a key may take before memory is freed.
const completionMemory = 256 << 20

// newLineCommand returns the command that the scripts of "ksnoop completion" call. Nobody is told of
// faults: they would appear in the middle of what is being typed.
// newRoot makes the commands anew, for what is typed to be read by.
func newLineCommand(newRoot func() *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "__line SHELL COLUMNS ARG...", Hidden: true, DisableFlagParsing: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error {
			debug.SetGCPercent(-1) // which would take longer than all the rest
			debug.SetMemoryLimit(completionMemory)
			done := make(chan []byte, 1)
			go func() {
				defer func() { _ = recover() }()
				done <- completeLine(newRoot(), args)
			}()
			select {
			case reply := <-done:
				_, _ = c.OutOrStdout().Write(reply)
			case <-time.After(completionTime):
			}
			return nil
		},
	}
}

// completeLine returns the reply to a shell. Its first line says how to go on: "files" if files are to be
// completed, "open" if no blank is to follow, else "words".
func completeLine(root *cobra.Command, args []string) []byte {
	if len(args) < 3 {
		return nil
	}
	dialect, ok := shell.Named(args[0])
	if !ok {
		return nil
	}
	columns, _ := strconv.Atoi(args[1])
	words := lineWords(dialect, args[2:])
	if len(words) < 2 {
		return nil
	}
	last := &words[len(words)-1]
	if !last.Plain() {
		return nil
	}
	reply, files := completeWords(root, words[1:])
	out := []byte("words\n")
	switch {
	case files:
		return []byte("files\n")
	case reply.Open:
		out = []byte("open\n")
	}
	switch dialect {
	case shell.Bash:
		const listing = "63" // COMP_TYPE is ?: the second TAB
		return append(out, reply.Bash(last, args[3], args[4] == listing, columns)...)
	case shell.Zsh:
		return append(out, reply.Zsh(last, columns)...)
	}
	return append(out, reply.Fish(last)...)
}

// lineWords returns the words of the line, up to the cursor. bash passes the line, what readline
// replaces, and COMP_TYPE. The others pass words: fish without quotes, but for the last one.
func lineWords(dialect shell.Dialect, args []string) (words []shell.Word) {
	if dialect == shell.Bash {
		if len(args) != 3 {
			return nil
		}
		return dialect.Words(args[0])
	}
	for i, w := range args {
		if dialect == shell.Fish && i < len(args)-1 {
			words = append(words, shell.Word{Text: w})
		} else {
			words = append(words, dialect.Word(w))
		}
	}
	return words
}

// completeWords asks the commands what can follow. files says that it is the name of a file.
func completeWords(root *cobra.Command, words []shell.Word) (r shell.Reply, files bool) {
	args := []string{cobra.ShellCompRequestCmd}
	for i := range words {
		if args = append(args, words[i].Text); words[i].Text == "--" && i < len(words)-1 {
			return r, true // the command that is traced
		}
	}
	for _, c := range append(root.Commands(), root) {
		completeFlags(c)
	}
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return r, false
	}
	typed := args[len(args)-1]
	if _, value, ok := strings.Cut(typed, "="); ok && strings.HasPrefix(typed, "-") {
		typed = value
	}
	directive := cobra.ShellCompDirectiveDefault
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if number, ok := strings.CutPrefix(line, ":"); ok {
			if n, err := strconv.Atoi(number); err == nil {
				directive = cobra.ShellCompDirective(n)
				continue
			}
		}
		word, about, _ := strings.Cut(line, "\t")
		text, ok := strings.CutPrefix(word, typed)
		if !ok {
			continue
		}
		c := shell.Candidate{Text: text, About: about}
		if name, rest, ok := strings.Cut(about, aboutName); ok {
			c.Name, c.About = name, rest
		} else if strings.HasPrefix(word, "-") {
			c.About = strings.ReplaceAll(about, "`", "") // around the name of an option's value
		}
		r.Candidates = append(r.Candidates, c)
	}
	r.Open = directive&cobra.ShellCompDirectiveNoSpace != 0
	return r, len(r.Candidates) == 0 && directive&cobra.ShellCompDirectiveNoFileComp == 0
}
