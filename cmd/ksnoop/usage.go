// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagGroup is a part of the options of a command, as --help lists them: the common ones first.
type flagGroup struct {
	title string
	flags string // names
}

// flagGroups are the groups of the commands that have many options. Options that are in none come last, but for the
// command ksnoop itself: all of its options are those of trace.
var flagGroups = map[string][]flagGroup{
	"ksnoop": {
		{"Common options of trace", "pid comm count for stack entry allow capture-args format output record"},
	},
	"trace": {
		{"Which calls", "pid comm count for rate tid uid cgroup container pod kubelet follow not-pid not-comm deny no-irq inlined user"},
		{"What to show", "stack caller ustack lbr lbr-max unfiltered fields compact join summary every keys symbolize source color redact types-only"},
		{"Sessions", "entry allow preset trace capture-args only-errors except-errors longer success interim inject live hung args args-width no-stack full-stacks sessions"},
		{"Output", "format output otlp otlp-as otlp-queue parent record print force full rotate keep flight trigger expect stats json-strings weight latency"},
		{"Attaching", "attach yes kprobes kprobe-multi fentries max-cpu ringbuf in-flight btf base vmlinux"},
		{"Debugging", "dry-run explain verbose debug"},
	},
	"replay": {
		{"Which calls", "pid comm count since until grep tid uid cgroup container pod not-pid not-comm"},
		{"What to show", "info run summary fields compact join lbr-max unfiltered color"},
		{"Sessions", "only-errors except-errors longer trace args args-width no-stack full-stacks verbose"},
		{"Output", "follow format output otlp otlp-as otlp-queue parent force expect stats json-strings weight"},
	},
	"view": {
		{"Which calls", "pid comm since until grep tid uid cgroup container pod not-pid not-comm"},
		{"What to show", "lbr-max unfiltered color"},
		{"Sessions", "only-errors except-errors longer args args-width no-stack full-stacks"},
	},
	"diff": {
		{"What is compared", "entry nth ignore exact"},
		{"Which calls", "pid comm since until grep tid uid cgroup container pod not-pid not-comm"},
		{"Sessions", "only-errors except-errors longer"},
		{"Output", "brief format vmlinux"},
	},
	"report": {
		{"Which calls", "pid comm count since until grep tid uid cgroup container pod not-pid not-comm"},
		{"Sessions", "only-errors except-errors longer"},
		{"Output", "output force"},
	},
}

// usageTemplate is cobra's, with groups of options. A command without groups has one.
const usageTemplate = `Usage:{{if .Runnable}}
  {{useLine .}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasHelpSubCommands}}

Pages of help:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{$.CommandPath}} help {{rpad .Name 9}} {{.Short}}{{end}}{{end}}{{end}}{{flagUsages .}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} trace --help" lists all options, "{{.CommandPath}} help COMMAND" explains a command or a page.{{end}}
`

// setUsage has a command and those below it list their options in groups.
func setUsage(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	cobra.AddTemplateFunc("useLine", useLine)
	root.SetUsageTemplate(usageTemplate)
}

// useLine returns cobra's line with options where they are usually typed, before a COMMAND.
func useLine(c *cobra.Command) string {
	line, has := strings.CutSuffix(c.UseLine(), " [flags]")
	if !has {
		return line
	}
	path := c.CommandPath()
	return path + " [OPTION]..." + strings.TrimPrefix(line, path)
}

// flagUsages returns the options of a command. On a terminal, lines are as wide as that.
func flagUsages(c *cobra.Command) string {
	columns := 0
	if tell := columnsOf(c.Root().OutOrStdout()); tell != nil {
		columns = tell()
	}
	var text strings.Builder
	for _, g := range groupedFlags(c) {
		set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		set.SortFlags = false
		for _, f := range g.flags {
			set.AddFlag(f)
		}
		if set.HasAvailableFlags() {
			text.WriteString("\n\n" + g.title + ":\n" + optionalValue.ReplaceAllStringFunc(strings.TrimRight(set.FlagUsagesWrapped(columns), "\n"), behindEquals))
		}
	}
	return text.String()
}

// optionalValue is how pflag lists the value of an option that may go without one.
var optionalValue = regexp.MustCompile(` [A-Z]+\[="?[a-z_]+[^" \]]*"?\] *`)

// behindEquals writes it as one has to type it, as wide as it was.
func behindEquals(listed string) string {
	word, _, _ := strings.Cut(listed[1:], "[")
	typed := "[=" + word + "]"
	return typed + strings.Repeat(" ", max(0, len(listed)-len(typed)))
}

// A listedGroup is a group with its options.
type listedGroup struct {
	title string
	flags []*pflag.Flag
}

// groupedFlags returns the options of a command as they are listed.
func groupedFlags(c *cobra.Command) (all []listedGroup) {
	grouped := map[string]bool{}
	for _, g := range flagGroups[c.Name()] {
		listed := listedGroup{title: g.title}
		for name := range strings.FieldsSeq(g.flags) {
			grouped[name] = true
			listed.flags = append(listed.flags, c.LocalFlags().Lookup(name))
		}
		all = append(all, listed)
	}
	rest := listedGroup{title: "Options"}
	if len(all) > 0 {
		rest.title = "Other options"
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] && (c.HasParent() || f.Name == "help" || f.Name == "version") {
			rest.flags = append(rest.flags, f)
		}
	})
	return append(all, rest)
}
