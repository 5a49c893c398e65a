// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"
	"time"
)

// TestWatchedStderr: for how long nobody has read a message is known, whoever else writes one meanwhile.
func TestWatchedStderr(t *testing.T) {
	read, write := io.Pipe()
	w := watchStderr(write)
	written := make(chan error)
	for range 2 {
		go func() {
			_, err := io.WriteString(w, "a\n")
			written <- err
		}()
	}
	const long = 20 * time.Millisecond
	for w.Blocked() < long { // or the test runs out of time
		time.Sleep(time.Millisecond)
	}
	if _, err := io.ReadFull(read, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	if d := w.Blocked(); d != 0 {
		t.Errorf("all is read, and it has waited for %v", d)
	}
	if n := w.Columns(); n != 0 {
		t.Errorf("a pipe has %d columns", n)
	}
}
