// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var writeManPages = flag.Bool("man", false, "write the man pages in docs/man")

// TestManPages: the man pages are what the help of the commands makes.
func TestManPages(t *testing.T) {
	const dir = "../../docs/man"
	root := newRootCommand(new(int))
	want := map[string][]byte{}
	for _, c := range append(root.Commands(), root) {
		if c.Name() != "help" && !c.Hidden {
			name, page := manPage(c)
			want[name] = page
		}
	}
	if *writeManPages {
		for name, page := range want {
			if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	have, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(have) != len(want) {
		t.Errorf("%d pages, want %d: %v", len(have), len(want), err)
	}
	for name, page := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if diff := cmp.Diff(string(page), string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v; go test ./cmd/ksnoop -run TestManPages -man\n%s", name, err, diff)
		}
	}
}

// TestManPagesShown: groff shows all that the help has: no character is taken for a mark.
func TestManPagesShown(t *testing.T) {
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("groff is not installed: make setup")
	}
	for _, c := range append(newRootCommand(new(int)).Commands(), newRootCommand(new(int))) {
		if c.Name() == "help" {
			continue
		}
		_, page := manPage(c)
		cmd := exec.Command("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=2000n", "-ww")
		cmd.Stdin = bytes.NewReader(page)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v %s", c.CommandPath(), err, errs.String())
		}
		shown := wordsShown(out.String())
		texts := strings.Split(c.Long, "\n")
		for _, g := range groupedFlags(c) {
			for _, f := range g.flags {
				if !f.Hidden {
					texts = append(texts, f.Usage+usualValue(f))
				}
			}
		}
		for _, text := range texts {
			if !strings.Contains(shown, wordsShown(strings.ReplaceAll(text, "`", ""))) {
				t.Errorf("%s: its man page lacks %q", c.CommandPath(), text)
			}
		}
	}
}

// wordsShown makes all space one space, and of the characters that groff draws those that were written.
func wordsShown(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("‐", "-", "−", "-", "’", "'", "‘", "`", "“", `"`, "”", `"`, "ˆ", "^", "˜", "~").Replace(text)), " ")
}

// manEnd is what the page of ksnoop itself has besides its help.
const manEnd = `
# EXIT STATUS
0
: all went well; with a COMMAND its own status counts

1
: something failed at run time; of **diff**: the recordings differ; of **why**: no call has failed as its options ask for

2
: wrong usage, or a SPEC that makes no sense; of **diff**: any trouble

3
: **--expect** was not met

126, 127
: the COMMAND cannot be executed, or there is none of that name

130, 143
: SIGINT or SIGTERM ended **why**, or ended ksnoop before it attached

141
: the reader of the output has gone

# ENVIRONMENT
NO_COLOR
: if set, **--color** auto does not colour

DEBUGINFOD_CACHE_PATH
: where debuginfod's client keeps debug info, which ksnoop reads too

# FILES
/usr/share/doc/ksnoop
: where packages put the documentation that help and messages call docs/
`

// manPage returns the man page of a command, and its name.
func manPage(c *cobra.Command) (name string, page []byte) {
	name = strings.ReplaceAll(c.CommandPath(), " ", "-")
	var b bytes.Buffer
	fmt.Fprintf(&b, "%% %s 1 \"\" ksnoop ksnoop\n# NAME\n%s - %s\n", strings.ToUpper(name), name, markdown(c.Short))
	if c.Runnable() {
		fmt.Fprintf(&b, "\n# SYNOPSIS\n**%s** %s\n", c.CommandPath(), markdown(strings.TrimPrefix(useLine(c), c.CommandPath()+" ")))
	}
	if c.Long != "" {
		fmt.Fprintf(&b, "\n# DESCRIPTION\n%s\n", markdown(c.Long))
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\n# EXAMPLES\n%s\n", regexp.MustCompile("(?m)^  ").ReplaceAllString(c.Example, "    "))
	}
	for _, g := range groupedFlags(c) {
		fmt.Fprintf(&b, "\n# %s\n", strings.ToUpper(g.title))
		for _, f := range g.flags {
			manFlag(&b, f)
		}
	}
	if !c.HasParent() {
		b.WriteString(manEnd)
	}
	b.WriteString("\n# SEE ALSO\n")
	separator := ""
	for _, other := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
		if other.Name() != "help" && !other.Hidden && other != c {
			fmt.Fprintf(&b, "%s**%s**(1)", separator, strings.ReplaceAll(other.CommandPath(), " ", "-"))
			separator = ", "
		}
	}
	return name + ".1", md2man.Render(append(b.Bytes(), '\n'))
}

func manFlag(b *bytes.Buffer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	of, usage := pflag.UnquoteUsage(f)
	if f.Shorthand != "" {
		fmt.Fprintf(b, "**-%s**, ", f.Shorthand)
	}
	fmt.Fprintf(b, "**--%s**", f.Name)
	switch {
	case of != "" && f.NoOptDefVal != "":
		fmt.Fprintf(b, "[=%s]", of)
	case of != "":
		fmt.Fprintf(b, " %s", markdown(of))
	}
	fmt.Fprintf(b, "\n: %s\n\n", markdown(usage+usualValue(f)))
}

// usualValue returns what --help has behind the usage of an option: " (default 4M)".
func usualValue(f *pflag.Flag) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.AddFlag(f)
	_, usage := pflag.UnquoteUsage(f)
	_, behind, _ := strings.Cut(strings.TrimRight(set.FlagUsages(), "\n"), usage)
	return behind
}

var marks = regexp.MustCompile("[\\\\*_`<>\\[\\]#|~]")

// markdown escapes what a text has of Markdown, which it is not. Indented lines are code there, too.
func markdown(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") {
			lines[i] = marks.ReplaceAllString(line, `\$0`)
		}
	}
	return strings.Join(lines, "\n")
}
