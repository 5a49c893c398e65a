// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// flagValues returns the values that some options take, by the options' names.
func flagValues() map[string][]string {
	values := map[string][]string{
		"attach":    {"auto", "fentry", "fsession", "kprobe", "multi", "session", "tracing_multi"},
		"args":      {"compact", "multiline", "verbose"},
		"color":     {"auto", colourAlways, colourNever},
		"dry-run":   {dryRunLoad},
		"lbr":       {"any", "any_call", "any_return", "call", "cond", "ind_call", "ind_jump", "call_stack"},
		"symbolize": {"none", "line", "inlines"},
		"ustack":    {ustackPointers, ustackDwarf},
		"weight":    {"calls", "time", "errors", "off-cpu"},
	}
	for i := range formats {
		values["format"] = append(values["format"], formats[i].name)
	}
	for i := range presets {
		values["preset"] = append(values["preset"], presets[i].name)
	}
	values["count"] = values["preset"] // which -c takes too
	values["only-errors"] = append([]string{"any", "NULL"}, errno.All()...)
	values["errno"] = errno.All()
	values["except-errors"] = values["only-errors"][1:]
	return values
}

// fileWords are the words by which --help calls the values that are names of files. It is never changed.
var fileWords = []string{"FILE", "PATH"}

// completeFlags completes the values of a command's options. Where nothing is known, there is nothing: only
// names of files are completed as such.
func completeFlags(c *cobra.Command) {
	values := flagValues()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch word, _ := pflag.UnquoteUsage(f); {
		case f.NoOptDefVal != "" && values[f.Name] == nil, slices.Contains(fileWords, word):
			return
		case f.Name == "pid" || f.Name == "not-pid":
			complete = completePID
		case values[f.Name] != nil:
			complete = cobra.FixedCompletions(values[f.Name], cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
		default:
			complete = cobra.NoFileCompletions
		}
		if f.Name == "syscall" {
			complete = completeSyscall
		}
		if f.Name == "fields" {
			complete = completeFields
		}
		if f.Name == "only-errors" || f.Name == "except-errors" {
			complete = completeList(values[f.Name])
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // fails where there is one: that of a SPEC
	})
}

// completeList completes the last one of a list of words with commas.
func completeList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, text string) (found []string, _ cobra.ShellCompDirective) {
		before := text[:strings.LastIndexByte(text, ',')+1]
		for _, w := range words {
			found = append(found, before+w)
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeFields completes the last field of a list, which + may begin.
func completeFields(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	rest, more := strings.CutPrefix(text, "+")
	names := fieldNames()
	if !more && !strings.Contains(rest, ",") {
		names = append(names, listFields)
	}
	found, how := completeList(names)(c, args, rest)
	for i := range found {
		found[i] = text[:len(text)-len(rest)] + found[i]
	}
	return found, how
}

// completeSyscall completes the name of a system call.
func completeSyscall(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return kernel.OpenRunning().SyscallNames(hostArch), cobra.ShellCompDirectiveNoFileComp
}

// completePID completes the number of a process.
func completePID(*cobra.Command, []string, string) (found []string, _ cobra.ShellCompDirective) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		comm, _ := os.ReadFile("/proc/" + e.Name() + "/comm") // "" if it has ended
		found = append(found, e.Name()+"\t"+terminal.Name(strings.TrimSuffix(string(comm), "\n")))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeSpecFlags completes SPECs that are values of options.
func (f *traceFlags) completeSpecFlags(c *cobra.Command) {
	for _, name := range [...]string{"entry", "allow", "inject", "trigger"} {
		_ = c.RegisterFlagCompletionFunc(name, completeSpec(&f.kernel, &f.symbols, false))
	}
	_ = c.RegisterFlagCompletionFunc("deny", completeSpec(&f.kernel, &f.symbols, true))
}
