// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ksnoop/ksnoop/internal/launch"
)

// TestStatusOfCommand: a command that cannot be started has the exit status of a shell.
func TestStatusOfCommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "no-program"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir)
	for command, want := range map[string]int{"no-such-command-anywhere": 127, "no-program": 126, dir: 126} {
		if _, err := launch.Start(nil, []string{command}); err == nil || statusOf(fmt.Errorf("trace: %w", err)) != want {
			t.Errorf("%s: %v has not exit status %d", command, err, want)
		}
	}
}
