// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/completion"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// aboutName separates what is shown of a candidate from what it is, in what cobra calls the description.
const aboutName = "\x1f"

// completed turns candidates for a SPEC into what cobra takes.
func completed(text string, found []completion.Candidate) ([]string, cobra.ShellCompDirective) {
	out := make([]string, len(found))
	for i, c := range found {
		out[i] = text + c.Text + "\t" + c.Name + aboutName + c.About
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
}

// completeSpec completes a SPEC of the kernel whose types --btf names, or of the running one.
func completeSpec(kernel *kernelFlags, sources *symbolFlags, selectorOnly bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		if strings.HasPrefix(text, "@") {
			return nil, cobra.ShellCompDirectiveDefault // a file with SPECs
		}
		view, closeView, err := kernel.view()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer closeView()
		e := completion.Engine{View: view, Arch: hostArch, SelectorOnly: selectorOnly, UserFile: userfunc.Opener(os.Getenv("PATH"), hostArch), Files: sources.sourceFiles}
		return completed(text, e.Complete(text))
	}
}

// commandsFirst completes a SPEC only where it cannot be a command yet.
func commandsFirst(spec cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		for _, sub := range c.Commands() {
			if len(args) == 0 && !sub.Hidden && strings.HasPrefix(sub.Name(), text) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		}
		return spec(c, args, text)
	}
}

// completeType completes the name of a type.
func completeType(kernel *kernelFlags, text string) ([]string, cobra.ShellCompDirective) {
	view, closeView, err := kernel.view()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closeView()
	e := completion.Engine{View: view, Arch: hostArch}
	return completed(text, e.CompleteType(text))
}

// sourceFiles lists source files by the kernel's debug info. It does not look where the kernel was
// loaded, which takes root and long.
func (f *symbolFlags) sourceFiles(prefix string) []string {
	if f.vmlinux != "" && !isRegular(f.vmlinux) {
		return nil
	}
	info, err := symbols.OpenDebugInfo("/", nil, f.vmlinux)
	if err != nil {
		return nil
	}
	files := info.Vmlinux().Files(prefix)
	_ = info.Close() // of what was only read
	return files
}

// completeReplay completes the names of recordings, and SPECs of what is in the first one.
func completeReplay(_ *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if !isRegular(args[0]) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer file.Close()
	r, err := record.NewReader(file)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	e := completion.Engine{View: r.Kernel(), Arch: r.Info().Arch, Recorded: r.Plan()}
	found, directive := completed(text, e.Complete(text))
	if len(found) == 0 && !strings.Contains(text, "(") {
		return nil, cobra.ShellCompDirectiveDefault // another recording
	}
	return found, directive
}

// isRegular reports whether a file can be opened without waiting, as a FIFO cannot.
func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// newCompletionCommand returns the command that prints the scripts.
func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the script that completes commands, options and SPECs in a shell",
		Long: strings.TrimSpace(`
completion prints a script for a shell. Then the TAB key completes commands,
options and what is in SPECs: functions, parameters, members, enumerators and the
functions of the language. The names are those of the kernel that runs, or of the
file that --btf names, or of the recording. "make install" installs the scripts.`),
		Example: "  ksnoop completion bash >/etc/bash_completion.d/ksnoop\n" +
			"  ksnoop completion zsh >/usr/local/share/zsh/site-functions/_ksnoop\n" +
			"  ksnoop completion fish >~/.config/fish/completions/ksnoop.fish\n" +
			"  eval \"$(ksnoop completion bash)\"",
		Args:      cobra.ArbitraryArgs,
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("completion takes the name of a shell: bash, zsh or fish")
			}
			script, err := scripts.ReadFile("completions/ksnoop." + args[0])
			if err != nil {
				return usagef("there is no completion for %q: there is one for bash, zsh and fish", args[0])
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s", script)
			return err
		},
	}
}
