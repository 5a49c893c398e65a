// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// liveCases has every case, what it must print and how it must exit.
func liveCases() map[string][]liveCase {
	simple := func(result string) []liveCase {
		return []liveCase{{args: "-count 3", want: "count=3 result=" + result}}
	}
	var fail []liveCase // as the manual pages of the system calls have it
	for call, errno := range map[string]string{"openat": "ENOENT", "mount": "EINVAL", "connect": "ENOENT", "bpf": "EACCES", "perf_event_open": "EINVAL",
		"setsockopt": "ENODEV", "io_uring_setup": "EINVAL", "mmap": "ENODEV", "ioctl": "ENODEV", "execve": "ENOENT"} {
		fail = append(fail, liveCase{args: call, want: "call=" + call + " result=-" + errno})
	}
	var refuse []liveCase
	for _, r := range refusals(0) {
		if r.errno == 0 { // TestLiveWhyCauses makes that call
			continue
		}
		refuse = append(refuse, liveCase{args: r.name, want: "call=" + r.name + " result=-" + strings.TrimPrefix(errnoText(r.errno), "-")})
	}
	return map[string][]liveCase{
		"fail":            fail,
		"refuse":          refuse,
		"change":          {{want: "read=32 prctl=0"}},
		"map-ok":          simple("0"),
		"map-array-zero":  simple("-EINVAL"),
		"map-array-key":   simple("-EINVAL"),
		"map-array-flags": simple("-EINVAL"),
		"map-percpu-big":  simple("-(E2BIG|ENOMEM)"),
		"map-hash-key":    simple("-E2BIG"),
		"map-hash-zero":   simple("-EINVAL"),
		"map-type":        simple("-EINVAL"),
		"prog-ok":         simple("0"),
		"prog-uninit":     simple("-EACCES"),
		"prog-noexit":     simple("-EINVAL"),
		"prog-type":       simple("-EINVAL"),
		"pairs":           {{name: "pair", want: `name=\S+ good=\d+ bad=-E[A-Z0-9]+(\npair name=\S+ good=\d+ bad=-E[A-Z0-9]+){25,}`}},
		"open":            {{want: "count=1 file=/dev/null result=0"}},
		"open-missing":    {{args: "-count 2", want: "count=2 file=/no/such/file result=-ENOENT"}},
		"open-notdir":     {{want: "count=1 file=/dev/null/file result=-ENOTDIR"}},
		"read":            {{args: "-count 4 -size 10", want: "count=4 size=10 bytes=40 result=10"}},
		"read-dir":        {{want: "count=1 size=64 bytes=0 result=-EISDIR"}},
		"read-mem":        {{want: "count=1 size=8 bytes=0 result=-EIO"}},
		"read-writeonly":  {{want: "count=1 size=8 bytes=0 result=-EBADF"}},
		"read-closed":     {{want: "count=1 size=8 bytes=0 result=-EBADF"}},
		"udp-send":        {{args: "-count 3", want: "count=3 size=56 packet=84 received=3"}, {args: "-size 0", want: "count=1 size=0 packet=28 received=1"}},
		"udp-unreachable": {{want: "count=1 result=-ENETUNREACH"}},
		"ping":            {{args: "-count 2", want: "count=2 size=56 packet=84 replies=2"}},
		"no-family":       {{want: "result=-ENOENT"}},
		"no-qdisc":        {{want: "result=-ENOENT"}},
		"no-chain":        nil, // needs a module; TestLiveWhyNetfilter inserts it
		"connect-refused": {{want: "count=1 result=-ECONNREFUSED"}},
		"tcp-loss":        {{args: "-control reno -count 3", want: `count=3 size=100 port=\d+ acked=401 threshold=5`}}, // half of the 10 packets that a connection begins with
		"sleep":           {{args: "-for 20ms -count 2", want: `count=2 for=20ms tid=\d+ interrupted=0 took=\S+`}},
		"off-cpu":         {{args: "-for 20ms -count 2", want: `count=2 for=20ms waited=\d+ waited-cpu=\d+ busy=\d+ busy-cpu=\d+ busy-delay=\d+`}},
		"pipe-wait":       {{args: "-for 20ms -count 2", want: `count=2 for=20ms tid=\d+ took=\S+`}},
		"nested":          {{want: "count=1 depth=4 result=1"}},
		"threads":         {{want: "threads=4 count=1 size=1 bytes=4"}},
		"sleepers":        {{args: "-n 300 -for 10ms", want: "n=300 for=10ms failed=0"}},
		"exit-group":      {{args: "-for 10ms -code 7", want: "threads=4 code=7", code: 7}},
		"fork":            {{args: "-children 3 read -size 5", want: `children=3 case=read pids=\d+,\d+,\d+`}},
		"killed":          {{args: "-for 10ms", want: `pid=\d+ signal=SIGKILL`}},
		"loop":            {{args: "-calls 10 -batches 3", want: `call=read calls=10 batches=3 min=\d+\.\d median=\d+\.\d`}, {args: "-call getppid -calls 10 -batches 1", want: `call=getppid calls=10 batches=1 .*`}},
		"exec":            {{args: "-comm other read -size 5", name: "read", want: "count=1 size=5 bytes=5 result=5"}},
		"block":           nil, // never ends; case killed runs it
		"programs":        {{name: "loaded", want: `\d+ programs`}},
		"generated":       nil, // prints its name alone, as workload_test.go has it
		"call-programs":   nil, // calls what another process has loaded; TestLivePrograms runs both
	}
}

type liveCase struct {
	args string
	name string // that is printed, when it is not the case's own
	want string // regular expression for what follows the name
	code int
}

func TestLiveCases(t *testing.T) {
	guest.Require(t)
	tests := liveCases()
	for _, c := range allCases() {
		if _, ok := tests[c.name]; !ok {
			t.Errorf("case %s has no test", c.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		for _, tt := range tests[name] {
			t.Run(name, func(t *testing.T) { tt.check(t, name) })
		}
	}
}

func (tt liveCase) check(t *testing.T, name string) {
	cmd := exec.Command("workload", append([]string{name}, strings.Fields(tt.args)...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != tt.code {
		t.Errorf("exit status %d, want %d", code, tt.code)
	}
	if tt.name != "" {
		name = tt.name
	}
	if want := regexp.MustCompile("^" + name + " " + tt.want + "\n$"); !want.Match(stdout.Bytes()) {
		t.Errorf("stdout %q, want %v", &stdout, want)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr %q, want nothing", &stderr)
	}
}

// TestLiveKernelCalls counts with the kernel's function tracer what the cases
// claim to call.
func TestLiveKernelCalls(t *testing.T) {
	guest.Require(t)
	// The runtime and the kernel's own work at start are the same for every case.
	idle := kernelCalls(t, "vfs_read", "read-closed")
	tests := []struct {
		function, args string
		want           int
	}{
		{"array_map_alloc_check", "map-array-zero -count 3", 3},
		{"array_map_alloc_check", "map-array-key", 1},
		{"array_map_alloc_check", "map-array-flags", 1},
		{"array_map_alloc_check", "map-ok", 1},
		{"array_map_alloc_check", "map-hash-key", 0},
		{"htab_map_alloc_check", "map-hash-key -count 2", 2},
		{"htab_map_alloc_check", "map-hash-zero", 1},
		{"bpf_check", "prog-ok", 1},
		{"bpf_check", "prog-uninit -count 2", 2},
		{"bpf_check", "prog-noexit", 1},
		{"bpf_check", "prog-type", 0},
		{"ip_send_skb", "udp-send -count 5", 5},
		{"ip_send_skb", "udp-unreachable", 0},
		{"ep_loop_check_proc", "nested -depth 4", 6},
		{"ep_loop_check_proc", "nested -depth 3", 3},
		{"vfs_read", "read -count 5", idle + 5},
		{"vfs_read", "read-dir", idle + 1},
		{"vfs_read", "read-mem", idle + 1},
		{"vfs_read", "read-writeonly", idle + 1},
		{"vfs_read", "threads -threads 3 -count 4", idle + 12},
		{"vfs_read", "sleepers -n 20 -for 1ms", idle + 20},
		{"vfs_read", "pipe-wait -for 1ms -count 2", idle + 2},
	}
	for _, tt := range tests {
		t.Run(tt.function+" "+tt.args, func(t *testing.T) {
			if got := kernelCalls(t, tt.function, tt.args); got != tt.want {
				t.Errorf("%d calls, want %d", got, tt.want)
			}
		})
	}
}

// kernelCalls runs a case and returns how often it called the function.
func kernelCalls(t *testing.T, function, args string) int {
	t.Helper()
	const tracing = "/sys/kernel/tracing"
	set := func(file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tracing, file), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	// What this thread forks is traced, and what comes of that. Its own calls
	// are too, they are left out below. Names are no help to tell calls apart:
	// the tracer remembers those of few threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := strconv.Itoa(unix.Gettid())
	defer func() {
		set("current_tracer", "nop")
		set("set_ftrace_filter", "")
		set("set_ftrace_pid", "")
	}()
	set("options/function-fork", "1")
	set("set_ftrace_pid", self)
	set("set_ftrace_filter", function)
	set("trace", "")
	set("current_tracer", "function")
	set("tracing_on", "1")
	out, err := exec.Command("workload", strings.Fields(args)...).CombinedOutput()
	set("tracing_on", "0") // or reading the trace would add to it
	if err != nil {
		t.Fatalf("workload %s: %v\n%s", args, err, out)
	}
	trace, err := os.ReadFile(filepath.Join(tracing, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for line := range strings.Lines(string(trace)) {
		task, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(line, " "+function+" <-") && !strings.HasSuffix(task, "-"+self) {
			calls++
		}
	}
	return calls
}
