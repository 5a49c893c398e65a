// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/completion/shell"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestCompleteWords: what the commands themselves complete, apart from SPECs.
func TestCompleteWords(t *testing.T) {
	for _, c := range []struct {
		line  []string
		wants []string // each with what is said of it, as far as it is given
	}{
		{[]string{"help", ""}, []string{"trace", "language: ", "formats: ", "sessions: ", "help"}},
		{[]string{"replay", "--for"}, []string{"mat: print in this FORMAT"}},
		{[]string{"replay", "--fields", ""}, []string{"comm", "container", "list"}},
		{[]string{"replay", "--fields", "+pid,c"}, []string{"omm: ", "ontainer: "}},
		{[]string{"why", "--errno", "EAC"}, []string{"CES"}},
		{[]string{"doct"}, []string{"or: "}},
	} {
		var words []shell.Word
		for _, w := range c.line {
			words = append(words, shell.Word{Text: w})
		}
		reply, _ := completeWords(newRootCommand(new(int)), words)
		var got []string
		for _, candidate := range reply.Candidates {
			got = append(got, candidate.Text+": "+candidate.About)
		}
		for _, want := range c.wants {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%q: no %q in %q", c.line, want, got)
			}
		}
	}
}

// TestCompleteSyscall: the kernel that runs here has system calls, unless its symbols are hidden.
func TestCompleteSyscall(t *testing.T) {
	if names, _ := completeSyscall(nil, nil, ""); len(names) == 0 {
		t.Skip("no symbols of the kernel")
	}
	reply, _ := completeWords(newRootCommand(new(int)), []shell.Word{{Text: "why"}, {Text: "--syscall"}, {Text: "openat"}})
	if !slices.ContainsFunc(reply.Candidates, func(c shell.Candidate) bool { return c.Text == "2" }) {
		t.Errorf("no openat2: %v", reply.Candidates)
	}
}

// TestCompleteFIFO: nothing on the line makes the shell wait, such as a FIFO that nobody writes to.
func TestCompleteFIFO(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if found, _ := completeReplay(nil, []string{name}, "vfs_read("); found != nil {
			t.Errorf("%q", found)
		}
		if found := (&symbolFlags{vmlinux: name}).sourceFiles("fs/"); found != nil {
			t.Errorf("%q", found)
		}
	}()
	select {
	case <-done:
	case <-time.After(livetest.Patience(20 * time.Second)):
		t.Error("completion waits for a FIFO")
	}
}
