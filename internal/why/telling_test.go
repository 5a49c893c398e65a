// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTellingCost: a command that looks for files in many places, and writes a lot, is a common one. What it writes is looked
// through once, and not for each call: longer texts take little more.
func TestTellingCost(t *testing.T) {
	took := func(words int) (least time.Duration) {
		for range 3 {
			s := &Seen{Status: 1}
			for i := range 20000 {
				f := call("openat", unix.ENOENT, fmt.Sprintf("/usr/lib/python3/site-packages/module%d.py", i))
				f.Time = uint64(i)
				s.Calls = append(s.Calls, f)
			}
			last := call("openat", unix.EACCES, "/a")
			last.Time = 20000
			s.Calls = append(s.Calls, last)
			for i := range 200 {
				s.Messages = append(s.Messages, Message{Time: uint64(20001 + i), PID: 1, Text: strings.Repeat("compiling ", words) + "\n"})
			}
			began := time.Now()
			if got, _, err := s.Choose(Wish{}); got != 20000 || err != nil {
				t.Errorf("call %d, %v", got, err)
			}
			if d := time.Since(began); least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	if short, long := took(2), took(200); long > 4*short {
		t.Errorf("2 words take %v, 200 %v", short, long)
	} else {
		t.Logf("2 words take %v, 200 %v", short, long)
	}
}

// TestFindCost: a line of full stops, as of a progress bar, has each of them for a name.
func TestFindCost(t *testing.T) {
	dots := strings.Repeat(".", 200_000)
	began := time.Now()
	for _, name := range []string{".", ".."} {
		if got := find(dots+"a", name); got != noMatch {
			t.Errorf("%q: %d", name, got)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
