// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestReplayFollow: a complete recording is followed to its end. One without an end that
// nobody writes is printed as far as it goes.
func TestReplayFollow(t *testing.T) {
	data, err := os.ReadFile("../../testdata/calls.ks")
	if err != nil {
		t.Fatal(err)
	}
	whole, stderr, status := ran("replay", "--follow", "../../testdata/calls.ks")
	if want, _, _ := ran("replay", "../../testdata/calls.ks"); whole != want || stderr != "" || status != 0 {
		t.Errorf("status %d, %q\n%s", status, stderr, whole)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := ran("replay", "--follow", cut)
	if status != exitFailed || stdout != whole || !strings.HasSuffix(stderr, "cut.ks: after 3 records: the recording was cut off: no ksnoop is writing it any more\n") {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
}

// TestReplayInterrupted: what is printed in a form that has an end has it after an interrupt, too.
func TestReplayInterrupted(t *testing.T) {
	c, stderr := program(t, `exec "$0" replay --format json "$1"`, manyRecords(t, "vfs_read(count, return)", 100_000))
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil { // it waits for the rest to be read
		t.Fatal(err)
	}
	time.Sleep(livetest.Patience(300 * time.Millisecond))
	out, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	last := out[bytes.LastIndexByte(out[:len(out)-1], '\n')+1:]
	if c.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), errStopped.Error()) || !bytes.HasPrefix(last, []byte(`{"kind":"end",`)) ||
		!bytes.Contains(last, []byte(`"error":"`+errStopped.Error())) || bytes.Count(out, []byte{'\n'}) > 90_000 {
		t.Errorf("%v, %s: %d lines, the last is\n%s", err, stderr, bytes.Count(out, []byte{'\n'}), last)
	}
}
