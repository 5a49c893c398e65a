// SPDX-License-Identifier: Apache-2.0

// The runtime would read cgroup files at start and then once a second.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Workload causes known kernel calls with known results, so that what a tracer
// shows can be compared with what was done.
//
//	workload list
//	workload CASE [FLAGS]
//
// A case prints one line when it is done: its name and what it did, as
// key=value. Results of system calls are numbers, or names such as -EINVAL. It
// exits with 1 when a call did not end as the case promises.
//
// System calls that are counted come from the case alone; but the Go runtime
// makes calls of its own (futex, mmap, epoll_wait, and at start one read of 20
// bytes), so a test should tell calls apart by an argument, such as a size.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
)

func allCases() []workCase {
	return slices.Concat(mapCases(), progCases(), fileCases(), netCases(), slowCases(), offCPUCases(), nestedCases(), threadCases(), processCases(), loopCases(), changeCases(), failureCases(), pairCases(), programCases(), refusalCases(), tcpCases(), generatedCases())
}

func main() {
	// A thread that a filter names by its number makes all calls of a case that
	// starts no others.
	runtime.LockOSThread()
	code := run(os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(code)
}

// run returns the exit status: 0 fine, 1 not as promised, 2 wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		fmt.Fprintln(stderr, "usage: workload list | workload CASE [FLAGS] (workload CASE -help lists them)")
		return 2
	}
	if args[0] == "list" {
		list(stdout)
		return 0
	}
	for _, c := range allCases() {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "workload: no case %q, see workload list\n", args[0])
	return 2
}

func list(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range allCases() {
		fmt.Fprintf(t, "%s\t%s\n", c.name, c.about)
	}
	t.Flush()
}
