// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// TestColour: colours are what --color always adds to the text, and nothing else. What is piped
// has none.
func TestColour(t *testing.T) {
	loss := event.Losses{}
	loss.Lost[bpf.LostRingbuf] = 3
	file := writeRecording(t, loss, recorded{bpf.KindEntry, 1, 5}, recorded{bpf.KindReturn, 2, -2})
	plain, _, status := ran("replay", file)
	if status != 0 || strings.Contains(plain, "\x1b") || !strings.Contains(plain, "-2 /* -ENOENT */") {
		t.Fatalf("status %d:\n%q", status, plain)
	}
	coloured, _, status := ran("replay", "--color", "always", file)
	for _, want := range []string{"\x1b[1mvfs_read\x1b[0m(", "\x1b[31m(ssize_t)-2 /* -ENOENT */\x1b[0m", "\x1b[33m--- 3 records lost because the ring buffer was full ---\x1b[0m\n"} {
		if status != 0 || !strings.Contains(coloured, want) {
			t.Errorf("status %d: %q is not in\n%q", status, want, coloured)
		}
	}
	for _, sequence := range []string{"\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"} {
		coloured = strings.ReplaceAll(coloured, sequence, "")
	}
	if coloured != plain {
		t.Errorf("without colours\n%q\nwant\n%q", coloured, plain)
	}
	for _, args := range [][]string{{"--color", "never"}, {"--color", "auto"}, {"--color", "always", "--grep", "vfs_read("}} {
		if out, _, _ := ran(append([]string{"replay", file}, args...)...); !strings.Contains(out, "vfs_read") || strings.Contains(out, "\x1b") != (args[1] == "always") {
			t.Errorf("%v: %q", args, out)
		}
	}
	if _, errs, status := ran("replay", "--color", "often", file); status != exitUsage || !strings.Contains(errs, "auto, always and never") {
		t.Errorf("status %d: %s", status, errs)
	}
	if _, errs, status := ran("replay", "--color", "always", "--format", "json", file); status != exitUsage || !strings.Contains(errs, "--color does not go with --format json") {
		t.Errorf("status %d: %s", status, errs)
	}
}
