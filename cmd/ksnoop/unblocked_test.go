// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnblocked: whoever writes does not wait for a reader. Once there is one, it learns how much was left out, where that was. Many
// lines at once are not too many.
func TestUnblocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		u := newUnblocked(write)
		fmt.Fprintln(u, "first")
		synctest.Wait() // it waits for the reader
		line := strings.Repeat("x", 63)
		const fit = mostUnwritten / 64
		for range fit + 10 {
			fmt.Fprintln(u, line)
		}
		all := make(chan string)
		go func() {
			text, _ := io.ReadAll(read)
			all <- string(text)
		}()
		synctest.Wait()
		fmt.Fprintln(u, "last")
		if !u.end() {
			t.Error("not all is written, and somebody reads")
		}
		write.Close()
		if text, want := <-all, "first\n"+strings.Repeat(line+"\n", fit)+"ksnoop: 10 messages left out, as nobody read\nlast\n"; text != want {
			t.Errorf("%d bytes, want %d; the end:\n%s", len(text), len(want), text[max(0, len(text)-200):])
		}
	})
}

// TestUnblockedEnd: an end waits for a reader for a second at most.
func TestUnblockedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		u := newUnblocked(write)
		fmt.Fprintln(u, "last")
		begin := time.Now()
		if ended, took := u.end(), time.Since(begin); ended || took != stopTime {
			t.Errorf("ended %v after %v", ended, took)
		}
		go io.Copy(io.Discard, read)
		if !u.end() {
			t.Error("not all is written, and somebody reads")
		}
		write.Close()
	})
}
