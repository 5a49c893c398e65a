// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
)

// errNotFound matches all errors about names that this kernel does not have.
var errNotFound = errors.New("not found")

// errNoKernel is the error for what only a mounted /proc and /sys can tell.
var errNoKernel = errors.New("only BTF is known of this kernel")

// An accessError says that a file of the kernel cannot be read, what to do about it, and
// what that would give.
type accessError struct {
	File string // path in the root of the view
	Need string // what to do: "run as root"
	Give string // what it would give: "addresses of functions"
	Err  error
}

func (e *accessError) Error() string {
	msg := fmt.Sprintf("/%s: %v", e.File, reason(e.Err))
	if e.Need != "" {
		msg += ": " + e.Need
		if e.Give != "" {
			msg += " to get " + e.Give
		}
	}
	return msg
}

func (e *accessError) Unwrap() error { return e.Err }

// access wraps an error from opening or reading file.
func access(file, give, missing string, err error) error {
	e := &accessError{File: file, Give: give, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Need = "run as root or with CAP_DAC_READ_SEARCH"
	case errors.Is(err, fs.ErrNotExist):
		e.Need = missing
	}
	return e
}

// reason returns an error's text without what a PathError repeats.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
