// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestTellingCost: a command that looks for files in many places, and writes a lot, is a common one. Each of its messages is
// looked through for all calls at once: that takes some memory for each message, and none for each call and message.
func TestTellingCost(t *testing.T) {
	const calls, messages = 20000, 200
	s := &Seen{Status: 1}
	for i := range calls {
		f := call("openat", unix.ENOENT, fmt.Sprintf("/usr/lib/python3/site-packages/module%d.py", i))
		f.Time = uint64(i)
		s.Calls = append(s.Calls, f)
	}
	last := call("openat", unix.EACCES, "/a")
	last.Time = calls
	s.Calls = append(s.Calls, last)
	for i := range messages {
		s.Messages = append(s.Messages, Message{Time: uint64(calls + 1 + i), PID: 1, Text: strings.Repeat("compiling ", 28) + "\n"})
	}
	if n := testing.AllocsPerRun(1, func() {
		if got, _, err := s.Choose(Wish{}); got != calls || err != nil {
			t.Errorf("call %d, %v", got, err)
		}
	}); n > 10*messages {
		t.Errorf("%.0f pieces of memory for %d messages", n, messages)
	}
}

// TestTellingOnce: what a text says of an error and of a name is found once, whatever the text is afterwards.
func TestTellingOnce(t *testing.T) {
	told := newTelling("cannot open 'a file': No such file or directory")
	find := func() string {
		return fmt.Sprint(told.namesError(uint64(unix.ENOENT)), told.namesError(uint64(unix.EACCES)), told.find("a file", uint64(unix.ENOENT)))
	}
	want, rest := find(), told.without(uint64(unix.ENOENT))
	told.text, told.lower = "", ""
	if got := told.without(uint64(unix.ENOENT)); got != rest || rest == "" {
		t.Errorf("%q, then %q", rest, got)
	}
	told.rest[uint64(unix.ENOENT)] = "" // what the name was looked for in
	if got := find(); got != want || !strings.HasPrefix(want, "true false ") {
		t.Errorf("%s, then %s", want, got)
	}
}

// TestFindCost: a line of full stops, as of a progress bar, has each of them for a name.
func TestFindCost(t *testing.T) {
	dots := strings.Repeat(".", 200_000)
	began := livetest.CPUTime(t)
	for _, name := range []string{".", ".."} {
		if got := find(dots+"a", name); got != noMatch {
			t.Errorf("%q: %d", name, got)
		}
	}
	if took := livetest.CPUTime(t) - began; took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
