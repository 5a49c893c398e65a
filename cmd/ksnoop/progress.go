// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// patience is how long a person waits without being told for what.
const patience = 500 * time.Millisecond

// slow says on a terminal what is being done, if that takes long: until the function that it
// returns is called.
func slow(w io.Writer, what string) (done func()) {
	columns := columnsOf(w)
	if columns == nil || columns() == 0 {
		return func() {}
	}
	said := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(said)
		fmt.Fprintln(w, "ksnoop: "+what)
	})
	return func() {
		if !timer.Stop() {
			<-said // so that it does not come behind what follows
		}
	}
}

// attachingTo is what is said of attaching to n functions.
func attachingTo(n int) string {
	if n == 1 {
		return "attaching to a function..."
	}
	return "attaching to " + grouping(n) + " functions..."
}

// reading is what is said of reading a recording.
func reading(name string) string { return "reading " + terminal.Name(name) + "..." }

// grouping writes a number with commas between groups of three digits.
func grouping(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
