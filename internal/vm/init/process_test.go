// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// A blocked write must hold up neither put nor the bytes' order.
func TestQueue(t *testing.T) {
	q := newQueue()
	r, w := io.Pipe()
	go q.copyTo(w)
	var want strings.Builder
	for i := range 1000 {
		chunk := strings.Repeat(string(rune('a'+i%26)), i%7+1)
		want.WriteString(chunk)
		q.put([]byte(chunk)) // nobody reads yet
	}
	q.put(nil)
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("%d bytes came out, want %d and the same", len(got), want.Len())
	}
}

// put must keep its own copy: the frame's buffer is used again.
func TestQueueCopies(t *testing.T) {
	q := newQueue()
	b := []byte("first")
	q.put(b)
	copy(b, "XXXXX")
	got, ok := q.take()
	if !ok || !bytes.Equal(got, []byte("first")) {
		t.Errorf("took %q, %v", got, ok)
	}
	q.close()
	if got, ok := q.take(); ok {
		t.Errorf("took %q after the end", got)
	}
}

func TestServeOnlyAsFirstProcess(t *testing.T) {
	if os.Getpid() == 1 {
		t.Skip("runs as process 1")
	}
	if err := serve(); err == nil || !strings.Contains(err.Error(), "only the first process") {
		t.Errorf("error %v", err)
	}
}
