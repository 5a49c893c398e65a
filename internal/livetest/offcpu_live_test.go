// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A timeRow is a row of a table of times, in ns.
type timeRow struct {
	Calls, Sum, Min, Max uint64
}

// timeTables returns the rows of the tables of --summary as JSON, by item and function.
func timeTables(t *testing.T, text string) map[string]map[string]timeRow {
	t.Helper()
	jsonLines(t, text) // which meet the schema
	tables := map[string]map[string]timeRow{}
	for line := range strings.Lines(text) {
		var x struct {
			Kind, Item string
			Rows       []struct {
				Keys map[string]string
				timeRow
			}
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		if x.Kind != "summary" {
			continue
		}
		tables[x.Item] = map[string]timeRow{}
		for _, r := range x.Rows {
			tables[x.Item][r.Keys["$func"]] = r.timeRow
		}
	}
	return tables
}

// TestLiveOffCPU: off-CPU times of sessions are what the workload has been told by the kernel. It
// waits in *pipe_read, for longer than it means to, and is busy in urandom_read_iter, where another
// thread wants the same CPU. What --record has kept adds up to the same.
func TestLiveOffCPU(t *testing.T) {
	guest.Require(t)
	t.Setenv("GODEBUG", "asyncpreemptoff=1") // a signal would make two reads of one
	const entry = "vfs_read(count == 48 || count == 4194304)"
	for _, traced := range []bool{true, false} {
		file, out := recordingFile(t), filepath.Join(t.TempDir(), "out")
		args := []string{"-s", "none", "-S", "-e", entry, "--summary", "--format", "json", "-o", out, "--record", file, "--force", "--print"}
		inside := 1 // calls whose total is not their own
		if traced {
			args, inside = append(args, "-T", "-a", "*pipe_read", "-a", "urandom_read_iter"), 2
		}
		said, errs, status := ksnoop(t, append(args, "--", "workload", "off-cpu", "-for", "50ms", "-count", "4")...)
		if status != 0 || errs != "" {
			t.Fatalf("status %d: %s", status, errs)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var waited, waitedCPU, busy, busyCPU, delay uint64
		at := strings.Index(said, "off-cpu ")
		if at < 0 {
			t.Fatalf("the workload says nothing: %s", said)
		}
		if _, err := fmt.Sscanf(said[at:], "off-cpu count=4 for=50ms waited=%d waited-cpu=%d busy=%d busy-cpu=%d busy-delay=%d", &waited, &waitedCPU, &busy, &busyCPU, &delay); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		tables := timeTables(t, string(text))
		check := func(what string, off timeRow, least, most uint64) {
			t.Helper()
			if off.Sum < least || off.Sum > most {
				t.Errorf("-T %v: %s: off the CPU for %d ns, the kernel has accounted %d to %d: %s", traced, what, off.Sum, least, most, said)
			}
		}
		const each = 50e6 * 9 / 10
		const asked = 4 * each
		// The most has a tenth of the time to spare. The least is half of what the kernel calls a delay,
		// since some of that is on the way out of the reads, and nine tenths of the waits: a thread that is said to
		// sleep may be about to.
		mostWaiting, mostBusy := waited-waitedCPU+waited/10, busy-busyCPU+busy/10
		off, self, total := tables["stats(off_cpu)"], tables["stats(self_off_cpu)"], tables["stats(total)"]
		check("vfs_read", off["vfs_read"], asked+delay/2, mostWaiting+mostBusy)
		if busyCPU < asked || delay == 0 {
			t.Errorf("the workload was not busy, or alone on its CPU: %s", said)
		}
		for name, row := range off {
			if row.Calls != total[name].Calls || row.Sum > total[name].Sum || row.Max > total[name].Max || self[name].Sum > row.Sum {
				t.Errorf("-T %v: %s: off the CPU %+v, itself %+v, in total %+v", traced, name, row, self[name], total[name])
			}
		}
		if len(off) != len(total) || len(off) <= inside-1 {
			t.Errorf("-T %v: off-CPU times of %d functions, there are %d", traced, len(off), len(total))
		}
		if traced {
			pipe := "pipe_read"
			if _, ok := off[pipe]; !ok {
				pipe = "anon_pipe_read" // Linux 6.16
			}
			check(pipe, off[pipe], asked, mostWaiting)
			check(pipe+" itself", self[pipe], asked, mostWaiting)
			check("urandom_read_iter", off["urandom_read_iter"], delay/2, mostBusy)
			if off[pipe].Min < each || off[pipe].Calls != 4 {
				t.Errorf("%s: %+v, but it waits four times for 50 ms each", pipe, off[pipe])
			}
			// A program that is preempted twice between two instructions takes an absence for another's.
			if own, in := self["vfs_read"].Sum, off[pipe].Sum+off["urandom_read_iter"].Sum; own+in > off["vfs_read"].Sum || own+in < off["vfs_read"].Sum*49/50 {
				t.Errorf("vfs_read was off the CPU for %d ns, %d of them itself, but what it calls for %d", off["vfs_read"].Sum, own, in)
			}
		}
		again, errs, status := replayed(t, file, "--summary", "--format", "json")
		if status != 0 || errs != "" || rows(again) != rows(string(text)) {
			t.Errorf("replay, status %d: %s\n%s\ntrace:\n%s", status, errs, rows(again), rows(string(text)))
		}
	}
}

// rows are the tables of --summary as JSON.
func rows(text string) string {
	return strings.Join(regexp.MustCompile(`(?m)^\{"kind":"summary".*$`).FindAllString(text, -1), "\n")
}

// TestLiveOffCPUUnknown: where nobody has asked for off-CPU times there are none.
func TestLiveOffCPUUnknown(t *testing.T) {
	guest.Require(t)
	file := recordingFile(t)
	traced(t, "-s", "none", "-S", "-T", "-e", "vfs_read(count == 33)", "--record", file, "--force", "--", "sh", "-c", "workload read -size 33 >/dev/null")
	out, errs, status := replayed(t, file, "--summary")
	if status != 0 || errs != "" || !strings.Contains(out, "stats(total)") || strings.Contains(out, "off_cpu") {
		t.Errorf("status %d: %s\n%s", status, errs, out)
	}
}
