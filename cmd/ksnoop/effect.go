// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
)

// checkEffect refuses options that would change nothing beside the others, or in
// the absence of others.
func (f *traceFlags) checkEffect(flags *pflag.FlagSet) error {
	if methods := slices.Compact(f.methods); len(methods) > 1 {
		return usagef("functions are to be attached by %s and by %s: give one method, by --attach or -K, -M or -F", methods[0], methods[1])
	}
	given := func(name string) bool { return flags.Lookup(name).Changed }
	if f.unattached() && (given("format") || given("output") || given("otlp")) {
		return usagef("--format, -o and --otlp are about calls and sessions; --explain and --dry-run print none")
	}
	if given("lbr") {
		return nil
	}
	if given("lbr-max") {
		return usagef("--lbr-max goes with --lbr: without it no branches are recorded")
	}
	if given("unfiltered") && !given("full-stacks") { // retsnoop's stacks.unfiltered is both
		return usagef("--unfiltered goes with --lbr: without it no branches are recorded")
	}
	return nil
}

// checkRooted refuses stacks of processes that would be taken with each session, and neither shown nor recorded.
func (f *traceFlags) checkRooted() error {
	format := &f.output.format
	switch {
	case !f.session.wanted() || !f.tail.userStack.wanted() || f.record.file != "":
		return nil
	case format.text() && f.session.look.noStack:
		return usagef("--no-stack leaves out what --ustack is about")
	case format.rooted():
		return nil
	}
	how := format.spelling()
	if format.options.summary {
		how = "--summary"
	}
	return usagef("--ustack does not go with sessions (-e or a preset) and %s: text and --format json show the stack of the process, and --record keeps it", how)
}

// untold are options that do not say what is traced: how it is shown, where it goes, and what
// ksnoop says of itself.
var untold = slices.Concat(textOnly, []string{"format", "output", "json-strings", "force", "otlp", "otlp-as", "otlp-queue", "record", "print", "join", "lbr-max", "unfiltered",
	"full", "expect", "verbose", "debug", "stats", "vmlinux", "symbolize", "source", supervisedFlag})

// asked are the options that say what is traced, each in one word.
func asked(flags *pflag.FlagSet) (options []string) {
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(untold, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			options = append(options, "--"+f.Name+"="+v)
		}
	})
	return options
}

// sayUnread says that the file of -k has made no difference where nothing was
// traced.
func (f *traceFlags) sayUnread(stderr io.Writer) {
	switch {
	case f.symbols.vmlinux == "" || f.symbols.info != nil:
	case f.explain:
		fmt.Fprintf(stderr, "ksnoop: -k %s was not read: --explain shows no addresses, and no SPEC names a source file\n", f.symbols.vmlinux)
	case f.dryRun != "":
		fmt.Fprintf(stderr, "ksnoop: -k %s was not read: --dry-run shows no addresses, and no SPEC names a source file\n", f.symbols.vmlinux)
	}
}
