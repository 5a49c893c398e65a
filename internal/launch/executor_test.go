// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestExecutor: what cannot be executed is executed by this program, with the exit status of a shell. A
// name without a slash is not looked for in vain by execve.
func TestExecutor(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		path    string
		refused bool
		status  int
	}{
		{filepath.Join(dir, "absent"), true, notFound},
		{write("closed", "#!/bin/sh\n", 0o644), true, notExecuted},
		{write("bad", "\x7fELF\x02\x01\x01", 0o755), true, notExecuted},
		{write("lost", "#!/absent/sh\n", 0o755), true, notFound},
		{dir, true, notExecuted},
		{"no-such-command-anywhere", false, notFound},
	} {
		c, err := StartQuiet(nil, []string{tt.path})
		if err == nil || Refused([]string{tt.path}, err) != tt.refused {
			t.Errorf("%s: %v, refused: %v", tt.path, err, !tt.refused)
			if err == nil {
				err = c.Kill()
			}
		}
		if start := (*StartError)(nil); err != nil && (!errors.As(err, &start) || start.Status() != tt.status) {
			t.Errorf("%s: %v is no StartError with exit status %d", tt.path, err, tt.status)
		}
		if err == nil || !tt.refused {
			continue
		}
		if c, err = StartExecutor(nil, []string{tt.path}, true); err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		c.Continue()
		if got, err := Status(<-c.Done()); got != tt.status || err != nil {
			t.Errorf("%s: status %d, %v, want %d", tt.path, got, err, tt.status)
		}
	}
	if Refused([]string{"/bin/true"}, nil) || Refused([]string{"/bin/true"}, errors.New("no such user")) {
		t.Error("what has nothing to do with the program is no refusal")
	}
}

// TestExecutorExecutes: the arguments are those of the program.
func TestExecutorExecutes(t *testing.T) {
	c, err := StartExecutor(nil, []string{"/bin/sh", "-c", "exit 42"}, true)
	if err != nil {
		t.Fatal(err)
	}
	c.Continue()
	if got, err := Status(<-c.Done()); got != 42 || err != nil {
		t.Errorf("status %d, %v", got, err)
	}
}
