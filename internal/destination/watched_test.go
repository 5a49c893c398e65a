// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// slowWriter takes a second for each KiB.
type slowWriter struct{}

func (slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * time.Second / 1024)
	return len(p), nil
}

// TestBlocked: how long a writer is blocked begins anew with each piece, and is nothing between writes.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watched{Writer: slowWriter{}}
		if b := w.Blocked(); b != 0 {
			t.Errorf("before a write: %v", b)
		}
		begin := time.Now()
		go func() {
			if n, err := w.Write(make([]byte, 3*piece)); n != 3*piece || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		}()
		for _, c := range []struct{ at, want time.Duration }{{5, 5}, {10, 2}, {23, 7}, {25, 0}} { // a piece takes 8 s
			time.Sleep(c.at*time.Second - time.Since(begin))
			if b := w.Blocked(); b != c.want*time.Second {
				t.Errorf("after %d s: %v, want %d s", c.at, b, c.want)
			}
		}
	})
	if b := (*Watched)(nil).Blocked(); b != 0 {
		t.Errorf("of none: %v", b)
	}
}

// failing takes one piece, and no more.
type failing struct{ written int }

func (f *failing) Write(p []byte) (int, error) {
	if f.written > 0 {
		return 3, unix.ENOSPC
	}
	f.written = len(p)
	return len(p), nil
}

// TestWatchedError: how much was written before an error is known.
func TestWatchedError(t *testing.T) {
	w := &Watched{Writer: &failing{}}
	if n, err := w.Write(make([]byte, 2*piece)); n != piece+3 || err != unix.ENOSPC || w.Blocked() != 0 {
		t.Errorf("%d, %v, blocked for %v", n, err, w.Blocked())
	}
}

// A pieces notes what is written to it at a time.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

// TestWatchedWriter: much is written in pieces that end with a line, so that what a command
// writes to the same file stands between lines.
func TestWatchedWriter(t *testing.T) {
	line := strings.Repeat("x", 1000) + "\n"
	long := strings.Repeat("y", 3*piece)
	text := strings.Repeat(line, 50) + long
	var p pieces
	w := Watched{Writer: &p}
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if got := strings.Join(p, ""); got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
	for i, got := range p {
		if len(got) > piece || strings.Contains(got, "x") && !strings.HasSuffix(got, "\n") {
			t.Errorf("piece %d: %d bytes, %.10q at its end", i, len(got), got[max(0, len(got)-10):])
		}
	}
	if len(p) > 12 {
		t.Errorf("%d pieces", len(p))
	}
}
