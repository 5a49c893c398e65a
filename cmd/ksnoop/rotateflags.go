// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/record"
)

// rotateFlags are the options of runs that make several recordings.
type rotateFlags struct {
	size  string
	limit int           // of a recording, in bytes; 0: there is only one
	keep  int           // how many of that size have room; 0: any number
	shelf *record.Shelf // nil until it was opened
}

// Limits of --rotate.
const (
	minRotate = 1 << 20
	maxRotate = 1 << 40
)

func (f *rotateFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.size, "rotate", "", "with --record: FILE is a directory for recordings of at most `SIZE` (as 100M) each")
	flags.IntVar(&f.keep, "keep", 0, "with --rotate: keep the newest recordings in the directory, `N` times SIZE in all; 0 keeps all")
}

func (f *rotateFlags) check(recorded bool) (err error) {
	switch {
	case f.size == "" && f.keep != 0:
		return usagef("--keep goes with --rotate SIZE")
	case f.size == "":
		return nil
	case !recorded:
		return usagef("--rotate goes with --record DIR, in which it makes recordings")
	case f.keep < 0:
		return usagef("--keep %d: give how many recordings of SIZE there is to be room for, or 0 to keep all", f.keep)
	}
	if f.limit, err = parseBytes(f.size); err != nil || f.limit < minRotate || f.limit > maxRotate {
		return usagef("--rotate %s: give a size from 1M to 1024G, as 100M", f.size)
	}
	return nil
}

// report says how many recordings there are.
func (f *rotateFlags) report(dir string, w io.Writer) {
	if f.shelf == nil {
		return
	}
	c := f.shelf.Counts()
	fmt.Fprintf(w, "ksnoop: %s made in %s", plural.Of(c.Made, "recording{s}"), dir)
	if c.Removed > 0 {
		fmt.Fprintf(w, ", %s removed by --keep %d", plural.Of(c.Removed, "old one{s}"), f.keep)
	}
	fmt.Fprintln(w)
}
