// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/record"
)

// recordings returns how many of some arguments are names of recordings: the first one, and
// those behind it that can be read as such.
func recordings(args []string) int {
	n := min(1, len(args))
	for n < len(args) && isRecording(args[n]) {
		n++
	}
	return n
}

// checkRecordings refuses arguments of a command of which the first n, and no others, can be names of
// recordings.
func checkRecordings(command string, args []string, n int) error {
	if len(args) == 0 && command == "diff" {
		return usagef("diff takes two recordings, GOOD and BAD, or one; ksnoop trace --record FILE makes them")
	}
	if len(args) == 0 {
		return usagef("%s takes a FILE, which ksnoop trace --record FILE has made", command)
	}
	if len(args) > 1 && slices.Contains(args[1:], "-") || n > 1 && args[0] == "-" {
		return usagef("the standard input, -, goes with no other recording")
	}
	if slices.Contains(args, "") {
		return usagef("%s is given an empty word; leave it out, or write the name of a FILE or a SPEC", command)
	}
	for _, name := range args[:n] {
		info, err := os.Stat(name)
		missing := errors.Is(err, fs.ErrNotExist)
		if missing && strings.Contains(name, "(") {
			return usagef("there is no file %s; a FILE stands before SPECs", name)
		}
		if _, err := expr.Parse(name); missing && err == nil && name != "-" && !strings.ContainsAny(name, "./") {
			return usagef("there is no file %s; if it is a SPEC, write the recording first: ksnoop %s FILE %s", name, command, name)
		}
		if err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory; name the recordings in it: %s", name, filepath.Join(name, "*.ks"))
		}
	}
	for _, spec := range args[n:] {
		if command == "report" && strings.HasSuffix(spec, ".html") {
			return usagef("the page is named by -o: write -o %s", spec)
		}
	}
	for _, spec := range args[n:] { // a function may have the name of a file that happens to be here
		if _, err := os.Stat(spec); err == nil && strings.ContainsAny(spec, "./") {
			return usagef("%s is a file, but no recording of ksnoop", spec)
		}
	}
	return nil
}

// isRecording reports whether a name is that of a recording, rather than a SPEC.
func isRecording(name string) bool {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return strings.HasSuffix(name, ".ks") // which no SPEC is: why it cannot be read is told later
	}
	file, err := os.Open(name)
	if err != nil {
		return true
	}
	defer file.Close()
	return record.Is(file)
}
