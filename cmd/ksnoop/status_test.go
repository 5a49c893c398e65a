// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/ksnoop/ksnoop/internal/launch"
)

// TestStatusOfCommand: a command that cannot be started has the exit status of a shell.
func TestStatusOfCommand(t *testing.T) {
	for command, want := range map[string]int{"no-such-command-anywhere": 127, t.TempDir(): 126} {
		if _, err := launch.Start(nil, []string{command}); err == nil || statusOf(fmt.Errorf("trace: %w", err)) != want {
			t.Errorf("%s: %v has not exit status %d", command, err, want)
		}
	}
}
