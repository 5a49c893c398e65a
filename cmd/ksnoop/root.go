// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// newRootCommand returns the command line. status receives the exit status of
// a traced command.
func newRootCommand(status *int) *cobra.Command {
	root := newTraceCommand(status)
	root.Use = "ksnoop [SPEC]... [-- COMMAND [ARG]...]"
	root.Short = "Show the calls of kernel functions, with arguments and results"
	root.Long = strings.TrimSpace(`
ksnoop shows what kernel functions were called with and what they returned.

A SPEC names a function and what is wanted of its calls: all arguments and the
result, or, in parentheses, values to show and predicates that must hold:

    ksnoop trace ip_send_skb
    ksnoop trace 'ip_send_skb(skb->len == 84, skb)'
    ksnoop trace 'vfs_read(file->f_flags, return < 0)' -- cat /

Sessions show where something failed, as retsnoop does. A call of -e opens one on
its thread, and calls of -a are in it. If it fails, its stack is printed:

    ksnoop -e '*sys_bpf' -a '*map_alloc*' -a map_create
    ksnoop -e '*sys_bpf' -a ':kernel/bpf/*.c' 'array_map_alloc_check(attr->max_entries)'
    ksnoop -c fs -T -x ENOENT -- cat /no/such/file

"ksnoop SPEC" is short for "ksnoop trace SPEC".`)
	root.Example = "" // that of trace
	root.ValidArgsFunction = commandsFirst(root.ValidArgsFunction)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version()
	root.Flags().BoolP("version", "V", false, "print the version")
	root.SetVersionTemplate("ksnoop {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{nearestFlag(c, flagError(err))} })
	trace := newTraceCommand(status)
	root.AddCommand(trace, newReplayCommand(), newReportCommand(), newViewCommand(), newDiffCommand(status), newWhyCommand(status), newInfoCommand(), newPrintCommand(), newDoctorCommand(), newAgentCommand(), newSymCommand(), newSchemaCommand())
	root.AddCommand(newCompletionCommand(), newLineCommand(func() *cobra.Command { return newRootCommand(new(int)) }))
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newTopics()...)
	setUsage(root)
	root.SuggestionsMinimumDistance = 2 // two neighbours swapped
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Use, c.Long = "help [COMMAND | PAGE]", "help explains a command, or shows a page."
			c.Args, c.ValidArgsFunction = checkHelp, completeHelp
		}
	}
	return root
}

// completeHelp completes the name of a command or of a page.
func completeHelp(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	for _, page := range c.Root().Commands() {
		if len(args) == 0 && !page.Hidden {
			names = append(names, page.Name()+"\t"+page.Short)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// checkHelp refuses to help with what is no command.
func checkHelp(c *cobra.Command, args []string) error {
	root := c.Root()
	if len(args) > 1 {
		return usagef("help is about one command or page, and %q is another word", args[1])
	}
	if about, rest, err := root.Find(args); err != nil || about == root && len(rest) > 0 {
		var names []string
		for _, page := range root.Commands() {
			if !page.Hidden {
				names = append(names, page.Name())
			}
		}
		hint := suggest.Hint(args[0], slices.Values(names))
		if hint == "" {
			hint = "there are " + strings.Join(names, ", ")
		}
		return usagef("there is no command or page %q; %s", args[0], hint)
	}
	return nil
}

// elsewhere says what to write in place of commands of other tracers. It is never changed.
var elsewhere = map[string]string{
	"record": "to record what is traced, write ksnoop trace --record FILE SPEC", "stat": "to count calls, write ksnoop trace 'NAME(count())'",
	"version": "for the version write ksnoop --version", "list": "to list functions, write ksnoop info PATTERN", "ls": "to list functions, write ksnoop info PATTERN",
	"script": "to print a recording, write ksnoop replay FILE",
}

// meant says first what the first argument, an option with one dash, or the word behind an option was hardly meant for.
func meant(root *cobra.Command, args []string, message string) string {
	return cmp.Or(nearestCommand(root, args), oneDash(root, args), valueApart(root, args, message))
}

// behindDashes says that the command of why stands behind --. Its words are all that follow the first one, since those
// that look like options are the command's.
func behindDashes(args []string) string {
	c, args, err := newRootCommand(new(int)).Find(args)
	if err != nil || c.Name() != "why" {
		return ""
	}
	c.InitDefaultHelpFlag()
	c.Flags().SetInterspersed(false)
	if err := c.Flags().Parse(args); err != nil || c.Flags().Changed("pid") || c.ArgsLenAtDash() >= 0 {
		return ""
	}
	words := c.Flags().Args()
	if len(words) == 0 || slices.Contains(words, "--") {
		return ""
	}
	return "the command stands behind --: ksnoop why -- " + strings.Join(words, " ")
}

// nearestCommand says which command may have been meant by the first of some
// arguments: what is no command is taken for a SPEC.
func nearestCommand(root *cobra.Command, args []string) string {
	if c, _, err := root.Find(args); err != nil || c != root || len(args) == 0 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return ""
	}
	if meant := elsewhere[args[0]]; meant != "" {
		return fmt.Sprintf("there is no command %q: %s\n", args[0], meant)
	}
	names := root.SuggestionsFor(args[0])
	if args[0] != "help" && suggest.Nearest(args[0], slices.Values([]string{"help"})) != "" { // which cobra does not suggest
		names = append(names, "help")
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("did you mean the command %q? There is none called %q, so that it was taken for a SPEC:\n", names[0], args[0])
}
