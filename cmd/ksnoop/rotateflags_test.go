// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestRotateFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--keep goes with --rotate":           {"--record", "x", "--keep", "3"},
		"--rotate goes with --record DIR":     {"--rotate", "10M"},
		"--keep -1: give how many":            {"--record", "x", "--rotate", "10M", "--keep", "-1"},
		"--rotate 1K: give a size from 1M":    {"--record", "x", "--rotate", "1K"},
		"--rotate much: give a size from 1M":  {"--record", "x", "--rotate", "much"},
		"--rotate 2000G: give a size from 1M": {"--record", "x", "--rotate", "2000G"},
		"--full goes with --record":           {"--full"},
	} {
		stdout, stderr, status := ran(append([]string{"trace", "vfs_read"}, args...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, want %s", args, status, stderr, want)
		}
	}
}
