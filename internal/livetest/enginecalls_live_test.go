// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// graphed matches a call as the kernel's function_graph tracer prints it.
var graphed = regexp.MustCompile(`\|\s+([\w.]+)\(\)(?:;| \{)`)

// TestLiveEngineCalls has the kernel itself say what programs call while they run:
// plan knows all that one could trace, and that has more than a few lines.
func TestLiveEngineCalls(t *testing.T) {
	guest.Require(t)
	const tracefs, reads = "/sys/kernel/tracing", 20
	set := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tracefs, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	if tracers, err := os.ReadFile(filepath.Join(tracefs, "available_tracers")); err != nil || !strings.Contains(string(tracers), "function_graph") {
		t.Skipf("this kernel has no function_graph tracer: %s, %v", tracers, err)
	}
	if preempts(t) {
		t.Skip("this kernel preempts programs: other tasks' calls show among theirs")
	}
	// --follow has programs look into a hash table.
	// It ends by itself: what is read before an interrupt has little time to be printed, and this makes the guest slow.
	r := startTrace(t, "-c", strconv.Itoa(reads), "--attach=fentry", "--stack", "-p", strconv.Itoa(os.Getpid()), "--follow", "vfs_read(count == 43, *file, str(file->f_path.dentry->d_name.name), $comm, $uid, $cpu, return, $duration > 0)")
	for _, helper := range []string{"bpf_ringbuf_reserve", "bpf_ringbuf_submit", "bpf_ringbuf_output", "bpf_probe_read_kernel", "bpf_probe_read_kernel_str",
		"bpf_get_stack", "bpf_get_current_comm", "bpf_get_current_uid_gid", "bpf_get_current_pid_tgid", "bpf_ktime_get_ns",
		"__htab_map_lookup_elem"} {
		f, err := os.OpenFile(filepath.Join(tracefs, "set_graph_function"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(helper + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			t.Logf("not followed: %v", err) // of another name in this kernel, or part of every caller
		}
	}
	t.Cleanup(func() {
		set("current_tracer", "nop")
		set("set_graph_function", "")
		set("tracing_on", "1")
	})
	set("options/funcgraph-irqs", "0")
	set("current_tracer", "function_graph")
	if err := exec.Command("workload", "read", "-count", strconv.Itoa(reads), "-size", "43").Run(); err != nil {
		t.Fatal(err)
	}
	set("tracing_on", "0")
	text, err := os.ReadFile(filepath.Join(tracefs, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	if out, status := r.wait(t); status != 0 || records(out, "workload", "vfs_read") != reads {
		t.Errorf("status %d, %d records", status, records(out, "workload", "vfs_read"))
	}
	seen, unknown := map[string]int{}, map[string]int{}
	for _, m := range graphed.FindAllStringSubmatch(string(text), -1) {
		seen[m[1]]++
	}
	for name, n := range seen {
		if n >= reads && !plan.UsedByTracing(kernel.Function{Name: name}) { // else it is an interrupt's
			unknown[name] = n
		}
	}
	t.Logf("%d functions: %v", len(seen), seen)
	if len(seen) < 5 || seen["bpf_get_stack"] != reads {
		t.Errorf("the tracer has seen too little:\n%.2000s", text)
	}
	if len(unknown) > 0 {
		t.Errorf("called, and not in plan's list: %v", unknown)
	}
}
