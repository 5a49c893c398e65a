// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand returns the command line. status receives the exit status of
// a traced command.
func newRootCommand(status *int) *cobra.Command {
	root := newTraceCommand(status)
	root.Use = "ksnoop [SPEC]... [-- COMMAND [ARG]...]"
	root.Short = "Show the calls of kernel functions, with arguments and results"
	root.Long = strings.TrimSpace(`
ksnoop shows what kernel functions were called with and what they returned.

A SPEC names a function and what is wanted of its calls. Without parentheses
that is all arguments and the result; in parentheses stand values to show and
predicates that must hold:

    ksnoop trace ip_send_skb
    ksnoop trace 'ip_send_skb(skb->len == 84, skb)'
    ksnoop trace 'vfs_read(file->f_flags, return < 0)' -- cat /

Sessions show where in the kernel something failed, as retsnoop does. A call of
an entry function (-e) opens one on its thread, calls of allowed functions (-a)
are recorded in it, and when it fails the stack of the failure is printed, each
call with its result. SPECs beside -e add values to calls:

    ksnoop -e '*sys_bpf' -a '*map_alloc*' -a map_create
    ksnoop -e '*sys_bpf' -a ':kernel/bpf/*.c' 'array_map_alloc_check(attr->max_entries)'
    ksnoop -c fs -T -x ENOENT -- cat /no/such/file

"ksnoop SPEC" is short for "ksnoop trace SPEC".`)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version()
	root.Flags().BoolP("version", "V", false, "print the version")
	root.SetVersionTemplate("ksnoop {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	trace := newTraceCommand(status)
	root.AddCommand(trace, newReplayCommand(), newInfoCommand(), newPrintCommand(), newDoctorCommand(), newSymCommand())
	return root
}

// version is the module's version, or the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "development version"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}
