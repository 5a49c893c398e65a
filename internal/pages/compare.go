// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// masks hide what differs from run to run. The order matters: later ones see what earlier ones have written.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b6\.12\.\d+\S*`), "6.12.N"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "CLOCK"},
	{regexp.MustCompile(`\b(TID/PID )\d+/\d+`), "${1}N/N"},
	{regexp.MustCompile(`(?m)^( *\S.* +)\d+ +\d+ +\d+\.\d{6} `), "${1}PID CPU TIME "}, // of a call
	{regexp.MustCompile(`\b\d+\.\d{3,6}(us|ms|s)?\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|us|µs|ms)\b`), "TIME"},
	{regexp.MustCompile(`\b0x[0-9a-f]{7,16}\b`), "ADDRESS"},
	{regexp.MustCompile(`\bffff[0-9a-f]{12}\b`), "ADDRESS"},
	{regexp.MustCompile(`(\w)\+0x[0-9a-f]+`), "${1}+OFFSET"},
	{regexp.MustCompile(`ksnoop (v[\d.]+\S*|development version( [0-9a-f]{12})?)`), "ksnoop VERSION"},
	{regexp.MustCompile(`-{4,}`), "----"}, // under headings
	{regexp.MustCompile(`[ \t]+`), " "},   // columns are as wide as their widest value
}

var (
	number = regexp.MustCompile(`\d+(\.\d+)?(KiB|MiB|GiB|KB|MB|[KMG%])?`)
	bar    = regexp.MustCompile(`\|[@ ]*\|`)
)

// masked returns the lines of a text as they are compared.
func masked(text string, numbers bool) (lines []string) {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	if numbers {
		text = number.ReplaceAllString(bar.ReplaceAllString(text, "BAR"), "N")
	}
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// difference compares what a page has with what a command has printed. "" means that they are the same. Where two
// programs print, which of them is first may change.
func difference(page, printed string, numbers, two bool) string {
	want, got := masked(page, numbers), masked(printed, numbers)
	if matches(want, got) || two && slices.Equal(inAnyOrder(want), inAnyOrder(got)) {
		return ""
	}
	return fmt.Sprintf("the page has, as compared:\n%s\nand it prints:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
}

// inAnyOrder returns lines such that their order and the empty ones among them do not count.
func inAnyOrder(lines []string) []string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == "" })
	slices.Sort(lines)
	return lines
}

// matches reports whether lines are those wanted, of which "..." stands for any number of lines.
func matches(want, got []string) bool {
	i := slices.Index(want, "...")
	if i < 0 {
		return slices.Equal(want, got)
	}
	if len(got) < i || !slices.Equal(want[:i], got[:i]) {
		return false
	}
	rest := want[i+1:]
	for got = got[i:]; ; got = got[1:] {
		if matches(rest, got) {
			return true
		}
		if len(got) == 0 {
			return false
		}
	}
}
