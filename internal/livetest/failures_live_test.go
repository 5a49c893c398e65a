// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A failingCall is what `workload fail` does, with what the kernel's source says of it:
// what it returns, which function is the one that fails, and what that returns. All of
// these are called by way of a pointer, from another file or from several places, so that
// no compiler has made them a part of their caller.
type failingCall struct {
	call, returns string
	leaf, result  string
	// jumps are functions that may end with a jump to the next one: they are not in
	// the stack then. Those that serve system calls may, too.
	jumps string
	// around is what is traced besides: what is in between, and what is called before
	// the failure and after it.
	around string
}

var failingCalls = []failingCall{
	{"openat", "-ENOENT", "path_openat", "-ENOENT", "", "do_sys_openat2 do_filp_open do_file_open simple_lookup getname* putname"},
	{"mount", "-EINVAL", "shmem_parse_one", "-EINVAL", "shmem_parse_monolithic", "path_mount shmem_parse_options vfs_parse_fs_* shmem_free_fc put_fs_context"},
	{"connect", "-ENOENT", "path_lookupat", "-ENOENT", "__sys_connect", "unix_stream_connect unix_find_other unix_create1 unix_release_sock kern_path filename_lookup"},
	{"bpf", "-EACCES", bpfLeaf, "-EACCES", "", "bpf_prog_load bpf_check do_check_common check_alu_op check_subprogs pop_stack __bpf_prog_put_noref"},
	{"perf_event_open", "-EINVAL", "perf_tp_event_init", "-EINVAL", "", "perf_event_alloc perf_init_event perf_try_init_event security_perf_event_*"},
	{"setsockopt", "-ENODEV", "dev_get_by_name_rcu", "NULL", "__sys_setsockopt udp_setsockopt", "do_sock_setsockopt sk_setsockopt security_socket_setsockopt"},
	{"io_uring_setup", "-EINVAL", "io_sq_offload_create", "-EINVAL", "", "io_uring_* io_ring_*"},
	{"mmap", "-ENODEV", "kernfs_fop_mmap", "-ENODEV", "ksys_mmap_pgoff mmap_region", "vm_mmap_pgoff do_mmap __mmap_region unmap_region vm_area_free security_mmap_*"},
	{"ioctl", "-ENODEV", "netdev_get_name", "-ENODEV", "sock_ioctl dev_ioctl", "sock_do_ioctl inet_ioctl udp_ioctl"},
	{"execve", "-ENOENT", "path_openat", "-ENOENT", "", "bprm_execve load_script load_elf_binary open_exec do_open_execat free_bprm"},
}

// bpfLeaf stands for the function that finds out that a register was never written.
const bpfLeaf = "check_reg_arg"

// TestLiveFailures compares the stacks of failing system calls with those that the
// kernel takes itself: by probes of tracefs, with a stack trace, at the return of the
// function that fails and at the entry of those that leave the stack by a jump.
func TestLiveFailures(t *testing.T) {
	guest.Require(t)
	if attach.CapKprobeMulti.Probe() != nil {
		t.Skip("to attach to so many kprobes takes long")
	}
	// The verifier gives up with EAGAIN when a signal is pending, as Go's runtime
	// sends them to itself on a slow machine.
	t.Setenv("GODEBUG", "asyncpreemptoff=1")
	args := []string{"-s", "none", "-n", "workload"}
	script, want := "", map[string]string{}
	probes := map[string]string{} // by function
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(f string) bool { return strings.Contains(string(symbols), " "+f+"\n") }
	calls := slices.Clone(failingCalls)
	if i := slices.IndexFunc(calls, func(c failingCall) bool { return c.leaf == bpfLeaf }); exists("__" + bpfLeaf) {
		calls[i].leaf = "__" + bpfLeaf // which it has been a part of
	}
	for _, c := range calls {
		args = append(args, "-e", sys+c.call)
		for _, f := range slices.Concat(strings.Fields(c.jumps), strings.Fields(c.around), []string{c.leaf}) {
			args = append(args, "-a", f)
		}
		script += "workload fail " + c.call + "\n"
		for _, f := range append(strings.Fields(c.jumps), sys+c.call) {
			if exists(f) {
				probes[f] = "p:failures/%s %s"
			}
		}
		probes[c.leaf] = "r:failures/%s %s ret=$retval:s32"
	}
	tracer := probeKernel(t, probes)
	for _, c := range calls {
		stacks := tracer.stacks(t, c.call)
		rows := stacks[fmt.Sprint(c.leaf, resultNumber(t, c.result))]
		if len(rows) == 0 {
			t.Errorf("%s: no stack of %s", c.call, c.leaf)
		}
		for _, f := range append([]string{sys + c.call}, strings.Fields(c.jumps)...) {
			stack := stacks[f]
			if len(stack) == 0 || slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, f+"+") }) {
				continue // it is never called, or there
			}
			i := slices.Index(rows, stack[len(stack)-1]) + 1
			for i < len(rows) && strings.HasPrefix(rows[i], "!") {
				i++
			}
			rows = slices.Insert(rows, i, fmt.Sprintf("! [%s] %s", c.returns, f))
		}
		want[c.call] = strings.Join(append(rows, fmt.Sprintf("! [%s] %s", c.result, c.leaf)), "\n")
	}
	tracer.close(t)
	stdout, stderr, status := printedOnce(t, "ksnoop", append(args, "--", "sh", "-c", script+"exit 0")...)
	got := shownStacks(stdout)
	for _, c := range calls {
		if d := cmp.Diff(want[c.call], strings.Join(got[c.call], "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.call, d)
		}
	}
	t.Logf("status %d\n%s%s", status, stdout, stderr)
}

// TestLiveNotTheReason: what fails on the way and is not the reason, if the reason itself
// is not traced. mm/vma.c: vma_merge_new_range returns NULL when there is nothing to merge
// with. security/security.c: security_fs_context_parse_param returns -ENOPARAM when no
// module knows the option. And -A shows what system calls were passed.
func TestLiveNotTheReason(t *testing.T) {
	guest.Require(t)
	args := []string{"-A", "-s", "none", "-n", "workload", "-e", sys + "mmap", "-e", sys + "mount"}
	for _, f := range []string{"mmap_region", "__mmap_region", "vma_merge_new_range", "vma_merge", "vfs_parse_fs_param", "security_fs_context_parse_param"} {
		args = append(args, "-a", f)
	}
	stdout, stderr, status := printedOnce(t, "ksnoop", append(args, "--", "sh", "-c", "workload fail mmap; workload fail mount")...)
	for _, want := range []string{
		`\[-ENODEV\] +` + sys + `mmap.* addr=0 len=4096 prot=1 flags=2 fd=\d+ off=0\n`,
		`(?m)^! +\d+us \[-ENODEV\] +(__)?mmap_region  .*\n\n`,
		`\[-EINVAL\] +` + sys + `mount.* dev_name="none" dir_name="/[^"]*" type="tmpfs" flags=0 data=`,
		`(?m)^! +\d+us \[-EINVAL\] +vfs_parse_fs_param  .*\n\n`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Logf("status %d\n%.4000s%.2000s", status, stdout, stderr)
	}
}

// A tracefs is where the kernel's own probes are.
type tracefs string

// probeKernel puts probes at functions, each named like its function. Those at returns are
// for calls that fail.
func probeKernel(t *testing.T, probes map[string]string) tracefs {
	t.Helper()
	fs := tracefs("/sys/kernel/tracing")
	for f, probe := range probes {
		fs.write(t, "kprobe_events", fmt.Sprintf(probe, f, f), os.O_APPEND)
		filter := `comm == "workload"`
		if strings.HasPrefix(probe, "r:") {
			filter += " && ret <= 0"
		}
		fs.write(t, "events/failures/"+f+"/filter", filter, 0)
	}
	fs.write(t, "options/sym-offset", "1", 0)
	fs.write(t, "options/stacktrace", "1", 0)
	fs.write(t, "events/failures/enable", "1", 0)
	return fs
}

func (fs tracefs) close(t *testing.T) {
	t.Helper()
	fs.write(t, "events/failures/enable", "0", 0)
	fs.write(t, "options/stacktrace", "0", 0)
	fs.write(t, "options/sym-offset", "0", 0)
	fs.write(t, "kprobe_events", "", os.O_TRUNC)
}

func (fs tracefs) write(t *testing.T, file, text string, flags int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(string(fs), file), os.O_WRONLY|flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text + "\n"); err != nil {
		t.Fatalf("%s > %s: %v", text, file, err)
	}
}

// stacks makes a system call of the workload and returns the kernel's stacks, outermost
// first, as name+offset: up to the caller of a function at its last call and, by its name
// and its result, at its last return.
func (fs tracefs) stacks(t *testing.T, call string) map[string][]string {
	t.Helper()
	if out, err := exec.Command("workload", "fail", call).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(string(fs), "trace"))
	if err != nil {
		t.Fatal(err)
	}
	fs.write(t, "trace", "", os.O_TRUNC) // which empties it
	stacks := map[string][]string{}
	for _, hit := range probeHit.FindAllSubmatch(text, -1) {
		name, caller, result := string(hit[1]), string(hit[2]), string(hit[3])
		stack, begun := []string(nil), false
		for _, m := range stackLine.FindAllSubmatch(hit[4], -1) {
			// Above are the kernel's own functions of probes and, at entry, the function.
			line := string(m[1])
			if begun = begun || line == caller; begun {
				stack = append(stack, line)
			}
			begun = begun || caller == "" && strings.HasPrefix(line, name+"+")
		}
		slices.Reverse(stack)
		stacks[name+result] = stack
	}
	return stacks
}

var (
	// probeHit matches a probe's event and its stack. A return tells where it goes:
	//  ... 12.3: shmem_parse_one: (vfs_parse_fs_param+0x9f/0x140 <- shmem_parse_one) ret=-22
	//  ... 12.3: <stack trace>
	//  => vfs_parse_fs_param+0x9f
	probeHit  = regexp.MustCompile(`(?m): (\w+): \((?:(\w[\w.]*\+0x[0-9a-f]+)/0x[0-9a-f]+ <- )?[\w.+/]+\)(?: ret=(-?\d+))?\n.*<stack trace>\n((?: => .*\n)*)`)
	stackLine = regexp.MustCompile(`(?m)^ => ([\w.]+\+0x[0-9a-f]+)`)
)

// resultNumber is what a probe's ret is for a result.
func resultNumber(t *testing.T, result string) int {
	t.Helper()
	if result == "NULL" {
		return 0
	}
	for i := range 4096 {
		if errno.Name(uint64(i)) == strings.TrimPrefix(result, "-") {
			return -i
		}
	}
	t.Fatalf("%s is no error", result)
	return 0
}

// shownStacks returns the rows of the last session of each system call, without their
// durations; of calls that the kernel's stack has, the name and the offset alone.
func shownStacks(out string) map[string][]string {
	stacks := map[string][]string{}
	for session := range strings.SplitSeq(out, "TID/PID ") {
		var rows []string
		entry := ""
		for line := range strings.Lines(session) {
			m := sessionRow.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if m := systemCall.FindStringSubmatch(m[3]); m != nil && entry == "" {
				entry = m[1]
			}
			if m[1] == "!" {
				rows = append(rows, "! "+m[2]+" "+m[3])
			} else {
				rows = append(rows, m[3])
			}
		}
		if entry != "" {
			stacks[entry] = rows
		}
	}
	return stacks
}

var (
	sessionRow = regexp.MustCompile(`^([! ])[⌇ ] *(?:\d+us (\[[^\]]+\]) +)?([\w.]+(?:\+0x[0-9a-f]+)?)\s*$`)
	systemCall = regexp.MustCompile(`^` + sys + `(\w+)`)
)
