// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/show"
)

// TestReplayArguments: what cannot be meant is refused, in words that say what can be.
func TestReplayArguments(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.txt")
	empty := filepath.Join(dir, "empty")
	for name, content := range map[string]string{text: "hello\n", empty: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "replay takes a FILE, which ksnoop trace --record FILE has made"},
		{[]string{dir}, exitFailed, dir + " is a directory; name the recordings in it: " + dir + "/*.ks"},
		{[]string{recordedCalls, dir + ".ks"}, exitFailed, "no such file or directory"},
		{[]string{empty}, exitFailed, "the file is empty"},
		{[]string{text}, exitFailed, "not a recording of ksnoop"},
		{[]string{recordedCalls, text}, exitUsage, text + " is a file, but no recording of ksnoop"},
		{[]string{"-", recordedCalls}, exitUsage, "the standard input, -, goes with no other recording"},
		{[]string{recordedCalls, "-"}, exitUsage, "the standard input, -, goes with no other recording"},
		{[]string{recordedCalls, "-n", ""}, exitUsage, "-n is given an empty word"},
		{[]string{recordedCalls, "--grep", ""}, exitUsage, "--grep is given an empty word"},
		{[]string{recordedCalls, "--force"}, exitUsage, "--force goes with -o FILE"},
		{[]string{recordedCalls, "--info", "-p", "3"}, exitUsage, "--info does not go with -p"},
		{[]string{recordedCalls, "--info", "--format", "json"}, exitUsage, "--info does not go with --format"},
		{[]string{recordedCalls, "--info", "vfs_read"}, exitUsage, "it takes no SPEC"},
		{[]string{recordedCalls, recordedSessions, "--info", "--follow"}, exitUsage, "--follow goes with one FILE"},
	} {
		stdout, stderr, status := ran(append([]string{"replay"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%q: status %d, want %d with %q\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
	}
}

// TestInfoOfSeveral: each is told about under its name.
func TestInfoOfSeveral(t *testing.T) {
	one, _, _ := ran("replay", "--info", recordedCalls)
	other, _, _ := ran("replay", "--info", recordedSessions)
	both, stderr, status := ran("replay", "--info", recordedCalls, recordedSessions)
	want := "recording  " + recordedCalls + "\n" + one + "\nrecording  " + recordedSessions + "\n" + other
	if both != want || stderr != "" || status != 0 || one == "" || other == "" {
		t.Errorf("status %d, %s\n%s\nwant\n%s", status, stderr, both, want)
	}
}

// TestReplayReaderGone: that nobody reads any more is no fault, whatever is printed.
func TestReplayReaderGone(t *testing.T) {
	for _, args := range [][]string{{recordedCalls}, {recordedSessions}, {recordedCalls, recordedSessions}, {recordedCalls, "--info"},
		{recordedCalls, "--format", "json"}, {recordedCalls, "--format", "pprof"}, {recordedCalls, "--format", "perfetto"}, {recordedCalls, "--format", "folded"}} {
		var stderr strings.Builder
		status := run(append([]string{"replay"}, args...), goneReader{}, &stderr)
		if status != exitPipe || stderr.String() != "" {
			t.Errorf("%q: status %d, %q", args, status, &stderr)
		}
	}
}

type goneReader struct{}

var _ io.Writer = goneReader{}

func (goneReader) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: unix.EPIPE}
}

// TestBinaryOnTerminal: what is no text is not written to a terminal, not even to one whose
// width nobody has set.
func TestBinaryOnTerminal(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	for _, format := range []string{"pprof", "perfetto"} {
		var stderr strings.Builder
		status := run([]string{"replay", "--format", format, recordedCalls}, tty, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), "print it to a file with -o FILE") {
			t.Errorf("%s: status %d, %q", format, status, &stderr)
		}
	}
}

// TestExpectUndecided: calls that a recording cannot tell of may be those that are expected.
func TestExpectUndecided(t *testing.T) {
	for _, c := range []struct {
		text      string
		undecided uint64
		met       bool
	}{{"0", 0, true}, {"0", 1, false}, {"<3", 2, true}, {"<3", 3, false}} {
		var f expectFlag
		if err := f.Set(c.text); err != nil {
			t.Fatal(err)
		}
		if err := f.check(&show.Tally{}, c.undecided); (err == nil) != c.met {
			t.Errorf("%s of 0, %d undecided: %v", c.text, c.undecided, err)
		}
	}
}

// TestReplayGrowing: a recording that is being written ends too early, and why is told.
func TestReplayGrowing(t *testing.T) {
	data, err := os.ReadFile(recordedCalls)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "growing.ks")
	file, err := destination.Create(name, false)
	if err != nil {
		t.Fatal(err)
	}
	record.NewRecording(file, record.Source{}) // which marks it
	if _, err := file.Write(data[:len(data)-1]); err != nil {
		t.Fatal(err)
	}
	const want = "it is still being written, and --follow waits for the rest"
	for _, args := range [][]string{{name}, {name, recordedSessions}, {"--info", name}} {
		if _, stderr, status := ran(append([]string{"replay"}, args...)...); status != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := ran("replay", name); status != exitFailed || strings.Contains(stderr, want) {
		t.Errorf("when it is not: status %d, %s", status, stderr)
	}
}
