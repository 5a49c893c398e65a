// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// lookPath is exec.LookPath, but a file in PATH that cannot be executed is told apart from none, as by a shell.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if !errors.Is(err, exec.ErrNotFound) {
		return path, err
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, statErr := os.Stat(filepath.Join(dir, name)); statErr == nil && info.Mode().IsRegular() {
			return "", &exec.Error{Name: name, Err: fs.ErrPermission}
		}
	}
	return "", err
}
