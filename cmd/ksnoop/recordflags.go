// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
)

// recordFlags are the options of "ksnoop trace" about recordings.
type recordFlags struct {
	file   string
	print  bool
	full   bool
	flight flightFlags
	rotate rotateFlags
	to     *destination.File // nil before it is open, and of rotating files
}

func (f *recordFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "record", "", "record to a new `FILE`, for ksnoop replay, and print nothing")
	flags.BoolVar(&f.full, "full", false, "with --record: record all types and symbols of the kernel, for later questions about any of them")
	flags.BoolVar(&f.print, "print", false, "with --record: print as well")
	f.rotate.add(flags)
	f.flight.add(flags)
}

// check takes the options of what is printed, and the command that will be run; empty if there is none.
func (f *recordFlags) check(out *outputFlags, command []string) error {
	toStdout := f.toStdout()
	if err := f.rotate.check(f.file != ""); err != nil {
		return err
	}
	switch {
	case out.format.binary() && out.file == "" && len(command) > 0:
		return usagef("--format %s does not go with a command, which writes to the standard output, too: print to a file with -o FILE", &out.format)
	case f.print && out.otlp.wanted():
		return usagef("--print does not go with --otlp, which prints nothing")
	case f.file == "" && f.print:
		return usagef("--print goes with --record; without it, trace prints anyway")
	case f.file == "" && out.file == "" && out.force:
		return usagef("--force goes with --record or -o")
	case f.file == "" && f.full:
		return usagef("--full goes with --record")
	case f.file != "" && !f.print && !out.otlp.wanted() && (out.file != "" || !out.format.text() || out.format.options.summary):
		return usagef("--record alone prints nothing: -o, --format and --summary go with --print beside it")
	case f.file == "-":
		return usagef("--record -: write /dev/stdout, or ./- for a file of that name")
	case f.file != "" && f.rotate.size == "" && isDir(f.file):
		return usagef("--record %s: it is a directory; --rotate SIZE makes recordings in one", f.file)
	case out.file != "" && sameFile(f.file, out.file):
		return usagef("--record and -o name the same file, %s", f.file)
	case toStdout && unseen(unix.Stdout):
		return fmt.Errorf("--record %s: standard output is closed, or it is /dev/null", f.file)
	case toStdout && f.print:
		return usagef("--record %s does not go with --print, which writes there, too", f.file)
	case toStdout && len(command) > 0:
		return usagef("--record %s does not go with a command, which writes there, too", f.file)
	}
	return nil
}

// isDir reports whether a name is that of a directory.
func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// sameFile reports whether two names are those of one regular file, which may not be there yet.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return x.Mode().IsRegular() && os.SameFile(x, y)
	}
	dirA, err := os.Stat(filepath.Dir(a))
	dirB, err2 := os.Stat(filepath.Dir(b))
	return err == nil && err2 == nil && os.SameFile(dirA, dirB) && filepath.Base(a) == filepath.Base(b)
}

// toStdout reports whether the recording is to go to the standard output.
func (f *recordFlags) toStdout() bool {
	return f.file == "/dev/stdout" || f.file == "/dev/fd/1" || f.file == "/proc/self/fd/1"
}

// open makes the file for a recording of a plan, and replaces another file if told to; without
// --record it returns nil.
func (f *recordFlags) open(p *plan.Plan, source record.Source, force bool) (*record.Recording, error) {
	if f.file == "" {
		return nil, nil
	}
	if err := record.Affordable(p); err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	if f.rotate.limit > 0 {
		shelf, err := record.OpenShelf(f.file, int64(f.rotate.limit), f.rotate.keep)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		f.rotate.shelf = shelf
		return record.NewRecordings(shelf, source), nil
	}
	var err error
	f.to, err = destination.Create(f.file, force)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--record: %w; --force replaces it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	return record.NewRecording(f.to, source), nil
}
