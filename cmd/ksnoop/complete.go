// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// completeFunctions completes the names of functions, and of other targets once
// their kind is there, for the shell.
func completeFunctions(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	view := kernel.Open(os.DirFS("/"))
	kind, _, colon := strings.Cut(prefix, ":")
	var names []string
	switch {
	case strings.ContainsAny(prefix, "(*?["):
	case colon:
		list := map[string]func() []string{"syscall": func() []string { return view.SyscallNames(hostArch) },
			"tp": view.TracepointNames, "rawtp": view.RawTracepointNames}[kind]
		if list == nil {
			break
		}
		for _, name := range list() {
			if text := kind + ":" + name; strings.HasPrefix(text, prefix) {
				names = append(names, text)
			}
		}
	default:
		funcs, err := view.Match(prefix+"*", "")
		if err != nil {
			break
		}
		for _, f := range funcs {
			names = append(names, f.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
