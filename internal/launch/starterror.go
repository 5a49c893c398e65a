// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"io/fs"
	"os/exec"
)

// Exit statuses of what cannot be executed, as of a shell.
const (
	notExecuted = 126
	notFound    = 127
)

// A StartError is why a command was not started.
type StartError struct{ error }

func (e *StartError) Unwrap() error { return e.error }

// Status returns the exit status that a shell has for it.
func (e *StartError) Status() int { return statusOf(e.error) }

func statusOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return notFound
	}
	return notExecuted
}
