// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What lies in the buffer of a read before the call, and what the file has.
const (
	changeBefore = "what the buffer held"
	changeAfter  = "text of the file"
	changeSize   = 32
	// changeName is the name that the thread has after the prctl(2) of the case.
	changeName = "renamed"
)

func changeCases() []workCase {
	return []workCase{
		{"change", "read a file over a buffer's text, and change the thread's name: what calls change", changeCase},
	}
}

func changeCase(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := os.CreateTemp("", "workload-")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		content, buf := make([]byte, changeSize), make([]byte, changeSize)
		copy(content, changeAfter)
		copy(buf, changeBefore)
		if _, err := f.Write(content); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		read := readInto(int(f.Fd()), buf)
		name, err := unix.BytePtrFromString(changeName)
		if err != nil {
			return err
		}
		prctl := call(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)))
		fmt.Fprintf(w, "change read=%v prctl=%v\n", read, prctl)
		if err := prctl.expect(); err != nil {
			return err
		}
		return read.expect()
	}
}
