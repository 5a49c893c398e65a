// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"errors"
	"maps"
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

// graphed matches a call or its end as the kernel's function_graph tracer prints them, with the CPU and how far it
// is indented.
var graphed = regexp.MustCompile(`(?m)^ *(\d+)\)[^|\n]*\|( *)(?:([\w.]+)\(\)(?:;| \{)|\})`)

const stackHelper = "bpf_get_stack"

// graphedCalls counts the calls of each function, and in how many reads it was called. A read has one call of bpf_get_stack.
// Those of softirqs are left out: interrupts have made them, which are many on a slow machine.
func graphedCalls(trace string) (seen, reads map[string]int) {
	seen, reads = map[string]int{}, map[string]int{}
	last := map[string]int{}     // the read that had the last call
	softirqs := map[string]int{} // by CPU, how far the call is indented that serves them
	for _, m := range graphed.FindAllStringSubmatch(trace, -1) {
		cpu, indent, name := m[1], len(m[2]), m[3]
		if at, within := softirqs[cpu]; within {
			if name == "" && indent == at {
				delete(softirqs, cpu)
			}
			continue
		}
		switch opens := strings.HasSuffix(m[0], "{"); {
		case opens && (name == "handle_softirqs" || name == "__do_softirq"):
			softirqs[cpu] = indent
		case name != "":
			if seen[name]++; last[name] != seen[stackHelper]+1 {
				last[name] = seen[stackHelper] + 1
				reads[name]++
			}
		}
	}
	return seen, reads
}

// TestGraphedCalls: what a softirq calls on one CPU is left out, and nothing else.
func TestGraphedCalls(t *testing.T) {
	got, reads := graphedCalls(` 0)               |  bpf_get_stack() {
 1)   0.100 us    |  bpf_ktime_get_ns();
 0)               |    irq_enter_rcu() {
 0)   0.100 us    |    }
 0)   ==========> |
 0)               |    handle_softirqs() {
 0)               |      run_timer_softirq() {
 0)   0.200 us    |        idle_cpu();
 1)   0.100 us    |  bpf_ktime_get_ns();
 0)   1.200 us    |      }
 0)   2.200 us    |    }
 0)   0.100 us    |    get_stack_info();
 0)   9.100 us    |  }
`)
	want := map[string]int{"bpf_get_stack": 1, "bpf_ktime_get_ns": 2, "irq_enter_rcu": 1, "get_stack_info": 1}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if want["bpf_ktime_get_ns"] = 1; !maps.Equal(reads, want) {
		t.Errorf("in reads %v, want %v", reads, want)
	}
}

// TestLiveEngineCalls has the kernel itself say what programs call while they run:
// plan knows all that one could trace, and that has more than a few lines.
func TestLiveEngineCalls(t *testing.T) {
	guest.Require(t)
	const tracefs, reads = "/sys/kernel/tracing", 60
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
	seen, in := graphedCalls(string(text))
	unknown := map[string]int{}
	for name, n := range in {
		if n >= reads && !plan.UsedByTracing(kernel.Function{Name: name}) { // else it is an interrupt's
			unknown[name] = n
		}
	}
	t.Logf("%d functions: %v", len(seen), seen)
	if len(seen) < 5 || seen[stackHelper] != reads {
		t.Errorf("the tracer has seen too little:\n%.2000s", text)
	}
	if len(unknown) > 0 {
		t.Errorf("called, and not in plan's list: %v", unknown)
	}
}
