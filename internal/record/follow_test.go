// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/layout"
)

// A growing file is one that a recording is written to, piece by piece.
type growing struct {
	t    *testing.T
	name string
	file *os.File
}

func newGrowing(t *testing.T, locked bool) *growing {
	t.Helper()
	g := &growing{t: t, name: filepath.Join(t.TempDir(), "recording")}
	var err error
	if g.file, err = os.Create(g.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.file.Close() })
	if locked {
		lock(g.file)
	}
	return g
}

func (g *growing) write(data []byte) {
	if _, err := g.file.Write(data); err != nil {
		g.t.Error(err)
	}
}

// follow reads the file until it ends. It passes on how many records were read in all
// whenever it has to wait.
func (g *growing) follow(ctx context.Context, waits chan<- int) (records int, err error) {
	file, err := os.Open(g.name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	f := Follow(ctx, file)
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		return 0, err
	}
	for _, err := range r.Records() {
		if err != nil {
			return records, err
		}
		records++
		if !r.Pending() && f.Idle() {
			waits <- records
		}
	}
	return records, nil
}

// TestFollow: what is whole is read while a recording grows, however it is cut into
// pieces, and the end is the end although the file is still open.
func TestFollow(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, f.plan)
	if err != nil {
		t.Fatal(err)
	}
	f.records(30)
	var ends []int
	for i, raw := range f.raw {
		if err := w.Append(raw); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			w.flushLate()
			ends = append(ends, b.Len())
		}
	}
	if err := w.End(lostInTest); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	g := newGrowing(t, true)
	waits, done := make(chan int), make(chan error)
	go func() {
		n, err := g.follow(t.Context(), waits)
		if n != 30 {
			t.Errorf("%d records", n)
		}
		done <- err
	}()
	at := 0
	for i, end := range ends {
		for _, to := range []int{at + 1, end - 1, end} { // in the magic or a header; all but a byte
			time.Sleep(10 * time.Millisecond)
			g.write(data[at:to])
			at = to
		}
		select {
		case n := <-waits:
			if n != 10*(i+1) {
				t.Errorf("%d records after block %d", n, i)
			}
		case err := <-done:
			t.Fatalf("block %d: ended: %v", i, err)
		}
	}
	g.write(data[at:])
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFollowEnds: following ends when the writer is gone, and when it is told to.
func TestFollowEnds(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	f.records(3)
	data := f.bytes(t)
	for _, c := range []struct {
		name    string
		n       int // bytes that are there
		records int
		killed  bool
		want    error
	}{
		{"killed before the records", 10, 0, true, errAbandoned},
		{"killed", len(data) - 1, 3, true, errAbandoned},
		{"interrupted before the records", 10, 0, false, ErrInterrupted},
		{"interrupted", len(data) - 1, 3, false, ErrInterrupted},
	} {
		g := newGrowing(t, true)
		g.write(data[:c.n])
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done, waits := make(chan error), make(chan int, 9)
		go func() {
			n, err := g.follow(ctx, waits)
			if n != c.records {
				t.Errorf("%s: %d records", c.name, n)
			}
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("%s: ended before: %v", c.name, err)
		case <-time.After(2 * lookAgain):
		}
		if c.killed {
			g.file.Close()
		} else {
			cancel()
		}
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		} else if c.killed && (!errors.Is(err, errCut) || !strings.Contains(err.Error(), "no ksnoop is writing it any more")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	g := newGrowing(t, false) // nobody writes it
	g.write(data)
	if n, err := g.follow(t.Context(), make(chan int, 9)); n != 3 || err != nil {
		t.Errorf("a whole recording: %d, %v", n, err)
	}
}
