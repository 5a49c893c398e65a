// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/output"
)

// TestFields: what lines of calls begin with, and what is refused.
func TestFields(t *testing.T) {
	const calls, sessions = "../../testdata/calls.ks", "../../testdata/sessions.ks"
	usual, _, _ := ran("replay", calls)
	if same, _, status := ran("replay", "--fields", "comm,pid,cpu,time", calls); same != usual || status != 0 {
		t.Errorf("the usual fields make another text:\n%s", same)
	}
	out, errs, status := ran("replay", "--compact", "--fields", "wall,host,tid", calls, calls, "vfs_read(count)")
	if lines := strings.Split(out, "\n"); status != 0 || strings.Count(out, " guest     156 vfs_read(count = 33)\n") != 6 || strings.Join(strings.Fields(lines[0]), " ") != "WALL HOST TID FUNCTION" || !strings.HasPrefix(lines[2], "2026-11-23T06:50:3") {
		t.Errorf("%d:\n%s%s", status, out, errs)
	}
	for _, command := range []string{"trace", "replay"} {
		out, _, status := ran(command, "--fields", "list")
		if lines := strings.Split(strings.TrimSpace(out), "\n"); status != 0 || len(lines) != len(output.Columns()) || !strings.Contains(out, "\ncontainer  container, with its pod") {
			t.Errorf("%s: %d\n%s", command, status, out)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replay", "--fields", "contianer", calls}, `there is no field "contianer"; did you mean "container"?`},
		{[]string{"replay", "--fields", "", calls}, "--fields is given an empty word"},
		{[]string{"replay", "--fields", "pod", calls}, calls + ": --fields pod: the recording does not have the owners of its calls"},
		{[]string{"replay", "--fields", "pid", sessions}, sessions + ": --fields is about the lines of calls, and these are sessions"},
		{[]string{"replay", "--fields", "pid", "--format", "json", calls}, "--fields does not go with --format json"},
		{[]string{"replay", "--fields", "pid", "--summary", calls}, "--fields does not go with --summary"},
		{[]string{"replay", "--fields", "pid", calls, "vfs_read(count())"}, "--fields is about calls that are shown"},
		{[]string{"trace", "--fields", "pid", "-e", "vfs_read"}, "--fields does not go with sessions"},
	} {
		if out, errs, status := ran(c.args...); status != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %s%s, want %s", c.args, status, out, errs, c.want)
		}
	}
}
