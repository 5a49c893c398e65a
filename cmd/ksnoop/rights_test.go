// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestLackingCapability: what a message says is lacking is what the table says is needed.
func TestLackingCapability(t *testing.T) {
	const tracefs = "/sys/kernel/tracing/"
	open := func(file string) error {
		return fmt.Errorf("attaching: %w", &fs.PathError{Op: "open", Path: tracefs + file, Err: fs.ErrPermission})
	}
	for feature, err := range map[string]error{
		"`tp:` tracepoints":               open("events/sched/sched_switch/id"),
		"kprobes at 16 functions or more": open("kprobe_events"),
		livetest.Paranoid:                 fmt.Errorf("opening perf event: %w", unix.EACCES),
	} {
		i := slices.IndexFunc(livetest.Rights, func(r livetest.Right) bool { return r.Feature == feature })
		if name := lackingCapability(err); i < 0 || !slices.ContainsFunc(livetest.Rights[i].Needs, func(c uintptr) bool { return livetest.CapabilityNames[c] == name }) {
			t.Errorf("%s: %s", feature, name)
		}
	}
}
