// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"runtime/debug"
)

// errCut says why a mapped file could not be read. The kernel sends SIGBUS for pages beyond
// the end of the file, and for those that the disk cannot deliver.
var errCut = errors.New("the file became shorter while it was in use, or cannot be read")

// asFault returns the error for a recovered panic if it came from reading a mapped file.
// debug.SetPanicOnFault turns such faults into panics. A refusal is one, too.
func asFault(recovered any) (err error, ok bool) {
	if r, ok := recovered.(refusal); ok {
		return r.error, true
	}
	if _, ok := recovered.(interface {
		error
		Addr() uintptr
	}); ok {
		return errCut, true
	}
	return nil, false
}

// Err returns what has prevented look-ups: unknown relocations, or a file that was cut.
// Nothing is found from then on.
func (i *Info) Err() error {
	if err := i.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// fail keeps the first error and adds the name of the file.
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

// ready reports whether look-ups are possible. The first call relocates the file if it was
// opened with Lazy.
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

// recovered turns a fault of reading the file into an error. Each method that reads the
// file starts with
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
