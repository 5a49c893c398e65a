// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"

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
