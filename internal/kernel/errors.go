// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// errNotFound matches all errors about names that this kernel does not have.
var errNotFound = errors.New("not found")

// A NotFoundError says that the kernel has no function of this name.
type NotFoundError struct {
	Name    string
	Module  string   // the only module searched; "" for all
	Nearest []string // similar names, the nearest first
}

func (e *NotFoundError) Error() string {
	msg := "no function is called " + strconv.Quote(e.Name)
	if e.Module != "" {
		msg += " in module " + e.Module
	}
	if len(e.Nearest) > 0 {
		msg += ": did you mean " + strings.Join(e.Nearest, ", ") + "?"
	}
	return msg
}

// Is makes every NotFoundError match errNotFound.
func (e *NotFoundError) Is(target error) bool { return target == errNotFound }

// An AccessError says that a file of the kernel cannot be read, what to do about it, and
// what that would give.
type AccessError struct {
	File string // path in the root of the view
	Need string // what to do: "run as root"
	Give string // what it would give: "addresses of functions"
	Err  error
}

func (e *AccessError) Error() string {
	msg := fmt.Sprintf("/%s: %v", e.File, reason(e.Err))
	if e.Need != "" {
		msg += ": " + e.Need
		if e.Give != "" {
			msg += " to get " + e.Give
		}
	}
	return msg
}

func (e *AccessError) Unwrap() error { return e.Err }

// access wraps an error from opening or reading file.
func access(file, give, missing string, err error) error {
	e := &AccessError{File: file, Give: give, Err: err}
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
