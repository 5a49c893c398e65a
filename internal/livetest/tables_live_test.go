// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveTables: what the program prints of calls that are added up, in each format.
func TestLiveTables(t *testing.T) {
	guest.Require(t)
	work := []string{"--", "workload", "threads", "-threads", "2", "-count", "500", "-size", "47"}
	table := func(spec string, options ...string) string {
		return traced(t, append(append(append([]string{"trace"}, options...), spec), work...)...)
	}
	// A start is what takes long: one for all that is printed as text.
	texts := []string{"trace"}
	wants := map[string]string{} // regular expressions, by the heading
	for _, c := range []struct {
		spec   string
		format string
		want   string // a regular expression
	}{
		{"vfs_read(count == 47, count())", "text", `\n    1,000\n`},
		{"vfs_read(count == 47, count()[file->private_data])", "text", `\n +NULL +1,000\n`},
		{"vfs_read(count == 47, hist(count)[$comm])", "text", `"workload"(.|\n)*\[32B, 64B\)  1,000  \|@+\|`},
		{"vfs_read(count == 47, stats(return)[return])", "text", ` 47 +1,000 +47B +47\.00B +47B +45\.898KiB\n`},
		{"vfs_read(count == 47, count()[$ustack])", "text", `\n    1,000\n +\S`},
		{"vfs_read(count == 47, count()[$stack])", "text", `\n    1,000\n +vfs_read\n +ksys_read\+`},
		{"vfs_read(count == 47, sum(count)[$stack, $comm])", "folded", `(?m)^workload;.*;ksys_read;vfs_read 47000$`},
		{"vfs_read(count == 47, count()[return])", "prometheus", `(?m)^ksnoop_calls_total\{.*return="47"\} 1000$`},
		{"vfs_read(count == 47, quantiles($duration)[$func])", "text", `(?m)^    vfs_read +1,000( +\d\S+s){5}$`},
	} {
		if c.format == "text" {
			texts = append(texts, c.spec)
			wants["vfs_read(count == 47): "+strings.TrimSuffix(strings.TrimPrefix(c.spec, "vfs_read(count == 47, "), ")")] = c.want
			continue
		}
		if out := table(c.spec, "--format", c.format); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s as %s, want %s:\n%s", c.spec, c.format, c.want, out)
		}
	}
	out := "\n" + traced(t, append(texts, work...)...)
	for heading, want := range wants {
		_, shown, ok := strings.Cut(out, "\n"+heading+"\n")
		shown, _, _ = strings.Cut(shown, "\nvfs_read(")
		if !ok || !regexp.MustCompile(want).MatchString("\n"+shown+"\n") {
			t.Errorf("%s, want %s:\n%s", heading, want, out)
		}
	}
	// Addresses of the process have names.
	living := traced(t, "trace", "--max-cpu=off", "--attach", "kprobe", "--every", "50ms", "vfs_read(count == 47, count()[$ustack])", "--", "workload", "threads", "-threads", "1", "-count", "200000", "-size", "47")
	if !regexp.MustCompile(`\+0x[0-9a-f]+ \(\S*workload\)\n`).MatchString(living) {
		t.Errorf("no names of a process that is there:\n%s", living)
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

// TestLiveMetrics: with --every, a file of metrics has all at any time, and the sum so far.
func TestLiveMetrics(t *testing.T) {
	guest.Require(t)
	file := t.TempDir() + "/ksnoop.prom"
	traced(t, "trace", "--attach", "kprobe", "--every", "50ms", "--format", "prometheus", "-o", file, "vfs_read(count == 47, count(), sum(count))", "--", "sh", "-c",
		fmt.Sprintf("workload threads -threads 1 -count 500 -size 47; sleep 1; cat %s >%[1]s.half; workload threads -threads 1 -count 500 -size 47", file))
	for name, calls := range map[string]int{file + ".half": 500, file: 1000} {
		text, err := os.ReadFile(name)
		want := fmt.Sprintf(`(?m)^ksnoop_calls_total\{.*\} %d\n(.*\n)*ksnoop_count_bytes_total\{.*\} %d$`, calls, 47*calls)
		if err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s, want %s: %v\n%s", name, want, err, text)
		}
	}
}

// TestLiveTablesLack: with --every, what the tables of a time lack stands below them, so that calls and what is
// missing are as many as were made.
func TestLiveTablesLack(t *testing.T) {
	guest.Require(t)
	const made = 20_000
	out, errs, status := ksnoop(t, "trace", "--attach", "kprobe", "--every", "20ms", "--keys", "4", "vfs_read(count == 47, count()[$time])",
		"--", "sh", "-c", fmt.Sprintf("workload threads -threads 1 -count %d -size 47; sleep 0.2; workload threads -threads 1 -count %[1]d -size 47", made/2))
	sum := func(pattern string) (n, times int) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(out, -1) {
			of, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			n, times = n+of, times+1
		}
		return n, times
	}
	added, _ := sum(`(?m)^    \S+ +([0-9,]+)$`)
	lacking, marks := sum(`(?m)^--- ([0-9,]+) times? a call was not added to a table because it had no room for another key`)
	if status != 0 || added+lacking != made || marks < 2 {
		t.Errorf("status %d, %d calls added, %d not, said %d times; made are %d\n%s%.2000s", status, added, lacking, marks, made, errs, out)
	}
}

// TestLiveRedraw: on a terminal the tables of --every take each other's place, in the room that it
// has, and the last one stays. No call is in two of them, or in none.
func TestLiveRedraw(t *testing.T) {
	guest.Require(t)
	const rows, columns, made = 6, 40, 200_000
	out := onTerminal(t, unix.Winsize{Row: rows, Col: columns}, "NO_COLOR=1", "trace", "vfs_read(count == 47, count(), hist(count)[$comm])", "--every", "20ms",
		"--", "workload", "threads", "-threads", "1", "-count", fmt.Sprint(made), "-size", "47")
	frames := strings.Split(out, "\x1b[H")
	if len(frames) < 3 {
		t.Fatalf("%d tables:\n%q", len(frames), out)
	}
	sum := 0
	for i, frame := range frames {
		if i > 0 {
			shown, _, ok := strings.Cut(frame, "\x1b[J") // what the workload prints follows, and the last one
			lines := strings.Split(shown, "\n")
			if !ok || len(lines) > rows {
				t.Errorf("%d rows, or no end: %q", len(lines), frame)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(strings.TrimRight(strings.TrimPrefix(l, "\x1b[K"), "\r")) > columns {
					t.Errorf("too long: %q", l)
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:\x1b\[K)?    ([0-9,]+)\r+$`).FindAllStringSubmatch(frame, -1) {
			n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	if last := frames[len(frames)-1]; !regexp.MustCompile(`\x1b\[J(.*\r\n)*.* to .*\r\n(.*\r\n)*vfs_read\(count == 47\): hist`).MatchString(last) {
		t.Errorf("no table stays: %q", last)
	}
	if sum > made || sum == 0 || sum < made && !preempts(t) { // see skipped
		t.Errorf("%d calls in all tables, made are %d:\n%q", sum, made, out)
	}
}

// TestLiveSummary: --summary adds up calls and sessions of a known number, as they come and from a
// recording alike.
func TestLiveSummary(t *testing.T) {
	guest.Require(t)
	t.Setenv("GODEBUG", "asyncpreemptoff=1") // else the verifier may give up, see TestLiveErrorStacks
	const workload = "workload map-array-zero; workload map-array-zero; workload map-array-flags; workload map-ok; exit 0"
	sessions := []string{"-T", "-S", "-s", "none", "-e", "__sys_bpf", "-a", "map_create", "-a", "array_map_alloc_check"}
	calls := []string{"trace", "vfs_read(count == 47, return)"}
	for _, c := range []struct {
		args, work []string
		want       []string // regular expressions
	}{
		{sessions, []string{"--", "sh", "-c", workload}, []string{
			`"EINVAL" +array_map_alloc_check +3\n +"" +__sys_bpf +1\n\n`, // array_map_alloc_check, kernel/bpf/arraymap.c, refuses both
			`(?s)stats\(total\)(.*?\n +__sys_bpf +4 )(.*?\n +map_create +4 )(.*?\n +array_map_alloc_check +4 )`,
		}},
		{calls, []string{"--", "workload", "threads", "-threads", "1", "-count", "500", "-size", "47"}, []string{`vfs_read +"" +500\n`, `\n    vfs_read +500( +\d\S+s){5}\n`}},
	} {
		file := t.TempDir() + "/calls.ks"
		traced(t, slices.Concat(c.args, []string{"--record", file, "--force"}, c.work)...)
		for name, out := range map[string]string{
			"live":   traced(t, slices.Concat(c.args, []string{"--summary"}, c.work)...),
			"replay": traced(t, "replay", "--summary", file),
		} {
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("%s of %q, want %s:\n%s", name, c.args, want, out)
				}
			}
		}
	}
}

// withoutWork leaves out what the workload prints.
func withoutWork(out string) string {
	return regexp.MustCompile(`(?m)^threads .*\n`).ReplaceAllString(out, "")
}
