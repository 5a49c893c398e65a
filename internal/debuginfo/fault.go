// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"runtime/debug"
)

// errCut says why a mapped file could not be read: the kernel sends SIGBUS for
// what lies behind the end of the file, or cannot be read from the disk.
var errCut = errors.New("the file became shorter while it was in use, or cannot be read")

// asFault returns the error that a recovered panic stands for, if it comes from
// reading a mapped file. Only debug.SetPanicOnFault makes such panics.
func asFault(recovered any) (err error, ok bool) {
	if _, ok := recovered.(interface {
		error
		Addr() uintptr
	}); ok {
		return errCut, true
	}
	return nil, false
}

// Err returns what came in the way of looking things up: relocations that are
// not understood, or a file that was cut. From then on nothing is found.
func (i *Info) Err() error {
	if err := i.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// fail keeps the first error, with the name of the file.
func (i *Info) fail(err error) {
	if i.path != "" {
		err = &pathError{i.path, err}
	}
	i.fault.CompareAndSwap(nil, &err)
}

type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }

func (e *pathError) Unwrap() error { return e.err }

// ready reports whether anything can be looked up.
func (i *Info) ready() bool {
	if i.fault.Load() != nil {
		return false
	}
	if err := i.relocate(); err != nil {
		i.fail(err)
		return false
	}
	return true
}

// recovered makes a fault of reading the file an error. Each method that reads
// the file begins with
//
//	defer i.recovered(debug.SetPanicOnFault(true))
func (i *Info) recovered(before bool) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		err, ok := asFault(r)
		if !ok {
			panic(r)
		}
		i.fail(err)
	}
}
