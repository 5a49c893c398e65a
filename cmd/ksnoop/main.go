// SPDX-License-Identifier: Apache-2.0

// Command ksnoop shows what kernel functions were called with, what they
// returned, why they failed and how they got there.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/launch"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func main() {
	if launch.IsHolder(os.Args) {
		attach.RemoveLeft(launch.BeHolder(os.Args))
		return
	}
	if launch.IsBecomer(os.Args) {
		os.Exit(launch.BeBecomer(os.Args))
	}
	if launch.IsExecutor(os.Args) {
		os.Exit(launch.BeExecutor(os.Args))
	}
	delayCollection()
	endOnQuit()
	endOnInterrupt()
	keepOnPipe()
	os.Exit(run(os.Args[1:], standardOutput(), os.Stderr))
}

// run is main with its streams as arguments. It returns the exit status. What
// ksnoop prints has names in it that others have chosen, so that all of it goes
// through a terminal.Writer.
func run(args []string, stdout, stderr io.Writer) int {
	out, errs := terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	status := execute(args, out, errs)
	if err := out.Flush(); err != nil && status == 0 { // of what has ignored it, as --help
		if status = statusOf(err); status != exitPipe {
			fmt.Fprintln(errs, "ksnoop:", err)
		}
	}
	_ = errs.Flush() // there is nowhere left to say so
	return status
}

func execute(args []string, stdout, stderr io.Writer) int {
	status := 0
	root := newRootCommand(&status)
	root.SetArgs(withLevels(root, args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.Execute(); {
	case err == nil:
	case statusOf(err) == exitPipe:
		return exitPipe
	default:
		for i, text := range messages(err) {
			if specFaults(err) == nil { // whose text is that of the SPECs
				text = asTyped(root, args, text)
			}
			if i == 0 && statusOf(err) == exitUsage {
				text = cmp.Or(behindDashes(args), meant(root, args, text)+text)
			}
			fmt.Fprintln(stderr, "ksnoop: "+strings.TrimPrefix(onOneLine(text, args), "ksnoop: "))
		}
		return statusOf(err)
	}
	return status
}

// messages are the texts of an error: one, or those of errors that errors.Join has joined. Faults of SPECs are one text.
func messages(err error) []string {
	if specFaults(err) != nil {
		return []string{faultsText(err)}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		var all, texts []string
		for _, x := range e.Unwrap() {
			all, texts = append(all, messages(x)...), append(texts, x.Error())
		}
		if strings.Join(texts, "\n") == err.Error() {
			return all
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && inner.Error() == err.Error() {
			return messages(inner)
		}
	}
	return []string{err.Error()}
}

// faultsText is the text of faults of SPECs. They are drawn under the text, which takes lines of its own.
func faultsText(err error) string {
	faults, lists := 0, specFaults(err)
	for _, l := range lists {
		faults += len(l.Errors)
	}
	switch {
	case faults == 1:
		return "a fault in the SPEC\n" + err.Error()
	case len(lists) == 1:
		return fmt.Sprintf("%d faults in the SPEC\n%s", faults, err)
	}
	return fmt.Sprintf("%d faults in the SPECs\n%s", faults, err)
}

// onOneLine escapes what messages quote of the command line, of which a part can
// be names of files that a shell has found. A message has lines of its own, so
// that terminal.Writer leaves newlines alone.
func onOneLine(message string, args []string) string {
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		for _, text := range []string{arg, value, strings.TrimPrefix(arg, "@")} {
			if strings.Contains(text, "\n") {
				message = strings.ReplaceAll(message, text, terminal.Name(text))
			}
		}
	}
	return message
}

// specFaults collects the error lists of several SPECs, which come joined.
func specFaults(err error) []*expr.ErrorList {
	switch e := err.(type) {
	case *expr.ErrorList:
		return []*expr.ErrorList{e}
	case interface{ Unwrap() []error }:
		var all []*expr.ErrorList
		for _, x := range e.Unwrap() {
			all = append(all, specFaults(x)...)
		}
		return all
	case interface{ Unwrap() error }:
		return specFaults(e.Unwrap())
	}
	return nil
}
