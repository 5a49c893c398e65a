// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestWeight: the option of one format is none of others.
func TestWeight(t *testing.T) {
	for args, want := range map[string]string{"--weight time": "--weight goes with --format folded", "--format pprof --weight time": "--weight goes with --format folded",
		"--format folded --weight bytes": "none of calls, time, errors and off-cpu", "--format folded --weight off-cpu": "--weight off-cpu is about sessions", "--format jpeg": "perfetto, pprof, folded"} {
		if _, stderr, status := ran(append([]string{"replay", "../../testdata/calls.ks"}, strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	_, stderr, status := ran("replay", "../../testdata/sessions.ks", "--format", "folded", "--weight", "off-cpu")
	if want := "no off-CPU times were recorded: they are with --summary or --weight off-cpu, and --print, beside --record"; status != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("sessions without: status %d, %s", status, stderr)
	}
}

// TestBinaryBesideCommand: what a command prints would be in the middle of it.
func TestBinaryBesideCommand(t *testing.T) {
	for _, format := range []string{"perfetto", "pprof"} {
		_, stderr, status := ran("trace", "--format", format, "vfs_read", "--", "true")
		if want := "--format " + format + " does not go with a command"; status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("status %d, %s", status, stderr)
		}
	}
}

// TestFormatsHostile: with the names of a hostile recording no format has a control byte, and
// each name stays where it belongs.
func TestFormatsHostile(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		functions := map[string]int{}
		compareNames(t, 0, func(name string) string { // 0: the semicolon of the name has become a colon
			out := both("replay", "--format", "folded", hostileRecording(t, name, sessions))
			functions[name] = strings.Count(out, ";")
			return out
		})
		if functions[evil] != functions[harmless] || functions[evil] == 0 {
			t.Errorf("%v separators", functions)
		}
		for _, format := range []string{"perfetto", "pprof"} {
			stdout, stderr, status := ran("replay", "--format", format, hostileRecording(t, evil, sessions))
			if status != 0 || strings.Contains(stdout, "\x1b]") || strings.Contains(stdout, "\u202e") || len(stdout) < 200 {
				t.Errorf("%s, status %d: %s, %d bytes", format, status, stderr, len(stdout))
			}
		}
	}
}
