// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// executor is the name that this program is run by to execute another one.
const executor = "ksnoop-exec"

// Refused reports whether an error of Start says that the program which a path names cannot be
// executed. A name without a slash is looked for before anything is executed.
func Refused(args []string, err error) bool {
	var at *fs.PathError
	var found *exec.Error
	return strings.Contains(args[0], "/") && (errors.As(err, &found) || errors.As(err, &at) && at.Op == "fork/exec")
}

// StartExecutor is Start, or StartQuiet, for a program that cannot be executed: it starts this program, with
// IsExecutor true, whose execve of the program can be traced.
func StartExecutor(as *User, args []string, quiet bool) (*Command, error) {
	const self = "/proc/self/exe"
	args = append([]string{executor}, args...)
	if quiet {
		return quietly(func(null *os.File) (*Command, error) { return start(as, self, args, null, null) })
	}
	return start(as, self, args, os.Stdout, os.Stderr)
}

// IsExecutor reports whether StartExecutor has started this process, by its arguments.
func IsExecutor(args []string) bool { return len(args) > 1 && args[0] == executor }

// BeExecutor executes the program that the arguments of an executor name. If that fails, it says why on
// standard error, and returns an exit status.
func BeExecutor(args []string) int {
	runtime.LockOSThread()
	nameProcess()
	err := syscall.Exec(args[1], args[1:], os.Environ())
	fmt.Fprintf(os.Stderr, "ksnoop: %s: %v\n", args[1], err)
	return statusOf(err)
}
