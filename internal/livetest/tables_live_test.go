// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveTables: what the program prints of calls that are added up, in each format.
func TestLiveTables(t *testing.T) {
	guest.Require(t)
	work := []string{"--", "workload", "threads", "-threads", "2", "-count", "500", "-size", "47"}
	table := func(spec string, options ...string) string {
		return traced(t, append(append(append([]string{"trace"}, options...), spec), work...)...)
	}
	for _, c := range []struct {
		spec   string
		format string
		want   string // a regular expression
	}{
		{"vfs_read(count == 47, count())", "text", `\n    1,000\n`},
		{"vfs_read(count == 47, hist(count)[$comm])", "text", `"workload"(.|\n)*\[32B, 64B\)  1,000  \|@+\|`},
		{"vfs_read(count == 47, stats(return)[return])", "text", ` 47 +1,000 +47B +47\.00B +47B +45\.898KiB\n`},
		{"vfs_read(count == 47, count()[$ustack])", "text", `\n    1,000\n +\S`},
		{"vfs_read(count == 47, count()[$stack])", "text", `\n    1,000\n +vfs_read\n +ksys_read\+`},
		{"vfs_read(count == 47, sum(count)[$stack, $comm])", "folded", `(?m)^workload;.*;ksys_read;vfs_read 47000$`},
		{"vfs_read(count == 47, count()[return])", "prometheus", `(?m)^ksnoop_calls_total\{.*return="47"\} 1000$`},
		{"vfs_read(count == 47, quantiles($duration)[$func])", "text", `(?m)^    vfs_read +1,000( +\d\S+s){5}$`},
	} {
		if out := table(c.spec, "--format", c.format); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s as %s, want %s:\n%s", c.spec, c.format, c.want, out)
		}
	}
	lines := jsonLines(t, withoutWork(table("vfs_read(count == 47, hist(count, 4)[$tid], count()[$comm])", "--format", "json")))
	if n := len(of(lines, "summary")); n != 2 {
		t.Errorf("%d summaries in JSON", n)
	}
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^    ([0-9,]+)$`).FindAllStringSubmatch(table("vfs_read(count == 47, count())", "--every", "20ms"), -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != 1000 {
		t.Errorf("with --every, %d calls in all tables", sum)
	}
}

// withoutWork leaves out what the workload prints.
func withoutWork(out string) string {
	return regexp.MustCompile(`(?m)^threads .*\n`).ReplaceAllString(out, "")
}
