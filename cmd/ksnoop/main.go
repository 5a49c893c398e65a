// SPDX-License-Identifier: Apache-2.0

// Command ksnoop shows what kernel functions were called with, what they
// returned, why they failed and how they got there.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
)

// Exit statuses besides 0 and that of a traced command.
const (
	exitFailed = 1 // something went wrong at run time
	exitUsage  = 2 // wrong usage, or a SPEC that makes no sense
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its streams as arguments. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	status := 0
	root := newRootCommand(&status)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(stderr, "ksnoop: "+strings.TrimPrefix(message(err), "ksnoop: "))
		return statusOf(err)
	}
	return status
}

// A usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func statusOf(err error) int {
	var usage usageError
	var spec *expr.ErrorList
	if errors.As(err, &usage) || errors.As(err, &spec) {
		return exitUsage
	}
	return exitFailed
}

// message is the text of an error. Faults of SPECs are drawn under the text,
// which takes lines of its own.
func message(err error) string {
	var spec *expr.ErrorList
	if !errors.As(err, &spec) {
		return err.Error()
	}
	faults := 0
	for _, l := range specFaults(err) {
		faults += len(l.Errors)
	}
	if faults == 1 {
		return "a fault in the SPEC\n" + err.Error()
	}
	return fmt.Sprintf("%d faults in the SPECs\n%s", faults, err)
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
