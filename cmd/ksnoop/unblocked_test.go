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

// TestUnblocked: whoever writes does not wait for a reader. Once there is one, it learns how much was left out, and an end waits for
// a second at most.
func TestUnblocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		u := newUnblocked(write)
		begin := time.Now()
		const more = 10
		for i := range mostUnwritten + 1 + more {
			fmt.Fprintf(u, "%d\n", i)
			synctest.Wait() // the first one waits for the reader
		}
		if ended, took := u.end(), time.Since(begin); ended || took != stopTime {
			t.Errorf("ended %v after %v", ended, took)
		}
		all := make(chan string)
		go func() {
			text, _ := io.ReadAll(read)
			all <- string(text)
		}()
		if !u.end() {
			t.Error("not all is written, and somebody reads")
		}
		write.Close()
		text := <-all
		if lines := strings.Count(text, "\n"); lines != mostUnwritten+2 || !strings.HasPrefix(text, "0\nksnoop: 10 messages left out, as nobody read\n1\n") {
			t.Errorf("%d lines:\n%s", lines, text)
		}
	})
}
