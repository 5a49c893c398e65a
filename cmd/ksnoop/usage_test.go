// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/expr"
)

// TestFlagGroups: an option is in one group, so that --help lists it once, and where one looks for it.
func TestFlagGroups(t *testing.T) {
	root := newRootCommand(new(int))
	for _, name := range []string{"trace", "replay"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		var grouped []string
		for _, g := range flagGroups[name] {
			for flag := range strings.FieldsSeq(g.flags) {
				if f := c.Flags().Lookup(flag); f == nil || f.Hidden || f.Name != flag {
					t.Errorf("%s: there is no --%s", name, flag)
				}
				if slices.Contains(grouped, flag) {
					t.Errorf("%s: --%s is in two groups", name, flag)
				}
				grouped = append(grouped, flag)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !slices.Contains(grouped, f.Name) {
				t.Errorf("%s: --%s is in no group", name, f.Name)
			}
		})
		help, _, _ := ran(name, "--help")
		for _, flag := range grouped {
			if n := len(regexp.MustCompile(`\n  (?:-.,|   ) --`+flag+`\b[^-]`).FindAllString(help, -1)); n != 1 {
				t.Errorf("%s --help lists --%s %d times", name, flag, n)
			}
		}
	}
}

// TestHelpShort: who asks for help about nothing in particular gets a page.
func TestHelpShort(t *testing.T) {
	help, _, _ := ran("--help")
	if n := strings.Count(help, "\n"); n > 60 {
		t.Errorf("%d lines", n)
	}
	for _, page := range topics {
		if !strings.Contains(help, "\n  ksnoop help "+page.name+" ") {
			t.Errorf("no page %s", page.name)
		}
	}
}

// TestHelpOfHelp: what the library would print is ours.
func TestHelpOfHelp(t *testing.T) {
	if help, _, _ := ran("help", "help"); !strings.HasPrefix(help, "help explains a command, or shows a page.\n\nUsage:\n  ksnoop help [OPTION]... [COMMAND | PAGE]\n") {
		t.Error(help)
	}
	for _, name := range []string{"trace", "why"} {
		help, _, _ := ran(name, "--help")
		if !strings.Contains(help, "\n  ksnoop "+name+" [OPTION]... ") || strings.Contains(help, "[flags]") {
			t.Error(help) // options stand before the COMMAND
		}
	}
}

// TestHelpExamples: what --help and its pages say to type is understood.
func TestHelpExamples(t *testing.T) {
	pages := [][]string{{"--help"}}
	for _, c := range newRootCommand(new(int)).Commands() {
		pages = append(pages, []string{"help", c.Name()})
	}
	for _, page := range pages {
		help, _, status := ran(page...)
		if status != 0 {
			t.Errorf("%q: status %d", page, status)
		}
		for line := range strings.Lines(help) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "ksnoop ") && !strings.Contains(line, "[") || strings.HasPrefix(line, "ksnoop '") {
				understood(t, line)
			}
		}
	}
}

// redirected matches the file that a line takes or makes.
var redirected = regexp.MustCompile(` [<>] ?[\w./~-]+$`)

// understood checks a line of a shell: its options, and its SPECs.
func understood(t *testing.T, line string) {
	t.Helper()
	line = redirected.ReplaceAllString(line, "")
	words, err := exec.Command("sh", "-c", "ksnoop() { printf '%s\\0' \"$@\"; }; "+line+" </dev/null").Output()
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
	c, rest, err := newRootCommand(new(int)).Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	specs := c.Flags().Args()
	if n := c.Flags().ArgsLenAtDash(); n >= 0 {
		specs = specs[:n]
	}
	if c.Name() != "ksnoop" && c.Name() != "trace" && c.Name() != "replay" {
		return
	}
	for _, name := range []string{"entry", "allow"} {
		more, _ := c.Flags().GetStringArray(name)
		specs = append(specs, more...)
	}
	for _, text := range specs {
		if _, err := expr.Parse(text); err != nil && !strings.HasSuffix(text, ".ks") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestShortSentences: nobody reads a sentence of more than 30 words twice, in the README, the help, or the pages that
// newcomers read.
func TestShortSentences(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{"README.md", "docs/README.md", "docs/tour.md", "docs/cookbook.md", "docs/coming-from.md", "docs/fleet.md", "docs/security.md"} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(page)
	}
	for _, c := range newRootCommand(new(int)).Commands() {
		texts[c.Name()] = c.Long
		c.Flags().VisitAll(func(f *pflag.Flag) { texts[c.Name()+" --"+f.Name] = f.Usage })
	}
	texts["ksnoop"] = newRootCommand(new(int)).Long
	for name, text := range texts {
		for _, s := range sentencesOf(text) {
			if n := len(strings.Fields(s)); n > 30 {
				t.Errorf("%s: %d words: %s", name, n, s)
			}
		}
	}
}

var (
	// apart matches lines that are no text: code, tables, headings and empty ones.
	apart  = regexp.MustCompile(`^(    |\||#|$)`)
	item   = regexp.MustCompile(`^ *([*]|\d+\.) `)
	inCode = regexp.MustCompile("`[^`]*`")
	target = regexp.MustCompile(`\]\([^)]*\)`)
	ending = regexp.MustCompile(`[.!?]\s+`)
)

// sentencesOf returns those of a text: paragraphs and items, in which code counts as a word.
func sentencesOf(text string) (all []string) {
	paragraph := ""
	end := func() {
		plain := target.ReplaceAllString(inCode.ReplaceAllString(paragraph, "code"), "]")
		all = append(all, ending.Split(plain, -1)...)
		paragraph = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		if apart.MatchString(line) || item.MatchString(line) {
			end()
		}
		if !apart.MatchString(line) {
			paragraph += " " + strings.TrimSpace(item.ReplaceAllString(line, ""))
		}
	}
	end()
	return all
}
