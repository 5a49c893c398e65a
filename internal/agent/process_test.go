// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"
)

// TestMessage: why a process has ended is its last message: with the lines that belong to it, whether the first or the last
// of them has the reason.
func TestMessage(t *testing.T) {
	for said, want := range map[string]string{
		"":                         "",
		"ksnoop: one\nksnoop: two": "two",
		"ksnoop: loaded\nksnoop: a fault in the SPEC\n  vfs_read(cuont)\n           ^~~~~\n  column 10: there is no \"cuont\"\n": `a fault in the SPEC: vfs_read(cuont): column 10: there is no "cuont"`,
		"ksnoop: the kernel refuses\ntry --attach kprobe\n":                                                                      "the kernel refuses: try --attach kprobe",
		"ksnoop: 3 records lost\npanic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n":                             "panic: index out of range: goroutine 1 [running]:: main.main()",
		"no prefix\nksnoop: then one\n":                        "then one",
		"ksnoop: a\n" + strings.Repeat("x\n", 100):             "a: x: x: x: x: x: x: x: x",
		"ksnoop: " + strings.Repeat("y", maxLine) + "\nrest\n": strings.Repeat("y", maxLine-len(prefix)) + ": rest",
	} {
		var lines []string
		if got := sayLines(strings.NewReader(said), func(line string) { lines = append(lines, line) }); got != want {
			t.Errorf("%.80q: %.200q, want %.200q", said, got, want)
		}
		if n := len(strings.FieldsFunc(said, func(c rune) bool { return c == '\n' })); len(lines) != n || slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }) {
			t.Errorf("%.80q: it says %.200q", said, lines)
		}
	}
}
