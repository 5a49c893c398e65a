// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A targetCase is a SPEC that names no function, work of which it is known how
// often the SPEC holds, and how the records are headed.
type targetCase struct {
	spec, work string
	comm, name string
	want       int
}

// run expects a record of each call but for those that the kernel has skipped, as ksnoop
// says then: it may skip some in every run.
func (c targetCase) run(t *testing.T, args ...string) {
	t.Helper()
	args = append(append([]string{"trace"}, args...), c.spec, "--", "workload")
	out, errs, status := ksnoop(t, append(args, strings.Fields(c.work)...)...)
	if others := skipped.ReplaceAllString(errs, ""); status != 0 || others != "" {
		t.Fatalf("%s on %s: status %d, stderr:\n%s", c.spec, c.work, status, errs)
	}
	if n, missed := records(out, c.comm, c.name), sum(t, skipped, errs); n > c.want || n+missed < c.want {
		t.Errorf("%s on %s: %d records and %d calls skipped, want %d:\n%s", c.spec, c.work, n, missed, c.want, out)
	}
}

// runTogether runs cases in one start of ksnoop, which is what takes long. An item of its own tells the records of
// each. Work that several cases have is done once; that of the others must not make a case's SPEC hold.
func runTogether(t *testing.T, cases []targetCase, args ...string) {
	t.Helper()
	args = append([]string{"trace"}, args...)
	mark := func(i int) string { return fmt.Sprintf("$tid + %d", 1000+i) }
	var works []string
	for i, c := range cases {
		items, ok := strings.CutSuffix(c.spec, ")")
		if !ok {
			t.Fatalf("%s has no items", c.spec)
		}
		if !strings.HasSuffix(items, "(") {
			items += ", "
		}
		args = append(args, items+mark(i)+")")
		if work := "workload " + c.work; !slices.Contains(works, work) {
			works = append(works, work)
		}
	}
	out, errs, status := ksnoop(t, append(args, "--", "sh", "-c", strings.Join(works, " && "))...)
	if others := skipped.ReplaceAllString(errs, ""); status != 0 || others != "" {
		t.Fatalf("%q: status %d, stderr:\n%s", args, status, errs)
	}
	missed := sum(t, skipped, errs)
	for i, c := range cases {
		n := 0
		for _, b := range bodiesOf(out, c.comm, c.name) {
			if strings.Contains(b, " "+mark(i)+" = ") {
				n++
			}
		}
		if n > c.want || n+missed < c.want {
			t.Errorf("%s on %s: %d records and %d calls skipped, want %d:\n%.20000s", c.spec, c.work, n, missed, c.want, out)
		}
	}
}

// TestLiveSyscall: parameters come from user space's registers, all six of
// them, with their types and signs.
func TestLiveSyscall(t *testing.T) {
	guest.Require(t)
	var cases []targetCase
	for _, c := range []struct {
		name, items, work string
		want              int
	}{
		{"read", "count == 77, return != count", "read -count 5 -size 77", 0},
		{"read", "count == 64, return == -EISDIR", "read-dir -count 3 -size 64", 3},
		{"read", "fd == 0xffffffff, (int)fd == -1, return == -EBADF", "read-closed -count 4", 4},
		{"openat", `exit(ustr(filename)) == "/no/such/file", dfd == -100, return == -ENOENT`, "open-missing -count 3", 3},
		{"openat", `exit(ustr(filename)) ~ "/no/*", (flags & O_CREAT) != 0`, "open-missing -count 3", 0},
		{"sendto", "len == 56, flags == 0, addr_len == 16, addr->sa_family == AF_INET, return == 56", "udp-send -count 3 -size 56", 3},
		{"sendto", "len == 56, addr->sa_family == AF_INET6", "udp-send -count 3 -size 56", 0},
		{"sendto", "((struct sockaddr_in *)addr)->sin_addr.s_addr == 0x0100007f, *(u8 *)((struct sockaddr_in *)addr)->__pad == 0, ((struct sockaddr_in *)addr)->sin_port != 0", "udp-send -count 3 -size 56", 3},
		{"getppid", "", "loop -call getppid -batches 1 -calls 20", 40},
	} {
		cases = append(cases, targetCase{"syscall:" + c.name + "(" + c.items + ")", c.work, "workload", "syscall:" + c.name, c.want})
	}
	runTogether(t, cases)
	// It is unsigned in the kernel.
	out, errs, status := ksnoop(t, "trace", "syscall:read(fd < 0)", "--", "workload", "read-closed", "-count", "4")
	if n := records(out, "workload", "syscall:read"); n != 0 || status != 0 || !strings.Contains(errs, "this never holds: fd is unsigned int") {
		t.Errorf("%d calls with a negative unsigned descriptor, status %d: %s", n, status, errs)
	}
	out = traced(t, "trace", "--join", "syscall:read", "-c", "1", "-n", "workload", "--", "workload", "read", "-size", "99")
	// The first read may be one of the runtime, into memory that it has not touched yet.
	for _, want := range []string{`fd = \(unsigned int\)`, `buf = (\(char \*\)0x|0x\w+\s+/\* Cannot show 'buf' as 'char \*')`, `count = \(size_t\)`, `return = \(long int\)`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
}

// TestLiveSyscallMethods: what is kept from entry to return does not depend on
// how the kernel is hooked.
func TestLiveSyscallMethods(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		runTogether(t, []targetCase{
			{"syscall:read(count == 77, $arg3 == count, return == count)", "read -count 5 -size 77", "workload", "syscall:read", 5},
			{"syscall:read(count == 64, return == -EISDIR)", "read-dir -count 3 -size 64", "workload", "syscall:read", 3},
		}, attach)
	})
}

// TestLiveSyscallGlob: what does not have the parameter is left out.
func TestLiveSyscallGlob(t *testing.T) {
	guest.Require(t)
	out := traced(t, "trace", "syscall:*read*(count == 77, return == 77)", "--", "workload", "read", "-count", "3", "-size", "77")
	if n := records(out, "workload", "syscall:read"); n != 3 {
		t.Errorf("%d records, want 3:\n%s", n, out)
	}
}

func TestLiveTracepoint(t *testing.T) {
	guest.Require(t)
	const net = "net:net_dev_queue"
	runTogether(t, []targetCase{
		{"tp:syscalls:sys_enter_read(count == 77)", "read -count 4 -size 77", "workload", "tp:syscalls:sys_enter_read", 4},
		{"tp:syscalls:sys_exit_read(ret == -EISDIR)", "read-dir -count 3", "workload", "tp:syscalls:sys_exit_read", 3},
		{"tp:syscalls:sys_enter_sendto(len == 56, addr->sa_family == AF_INET)", "udp-send -count 3 -size 56", "workload", "tp:syscalls:sys_enter_sendto", 3},
		{"tp:" + net + `(name == "lo", len == 98)`, "udp-send -count 3 -size 56", "workload", "tp:" + net, 3},
		{"tp:net_dev_queue" + `(name ~ "l?", len == ((struct sk_buff *)skbaddr)->len)`, "udp-send -count 3 -size 56", "workload", "tp:" + net, 3},
		{"tp:" + net + `(name == "l")`, "udp-send -count 3 -size 56", "workload", "tp:" + net, 0},
		{`tp:sched:sched_process_exec(filename == "/proc/self/exe")`, "fork -children 3", "exe", "tp:sched:sched_process_exec", 3},
		{`tp:sched:sched_process_exec(filename ~ "*/second", pid > 1, pid == $pid)`, "exec read", "second", "tp:sched:sched_process_exec", 1},
		{`tp:task:task_rename(oldcomm == "workload", newcomm == "second", newcomm, oom_score_adj == 0)`, "exec read", "workload", "tp:task:task_rename", 1},
	})
	out := traced(t, "trace", `tp:sched:sched_process_exec(filename ~ "*/second")`, "--", "workload", "exec", "read")
	if !strings.Contains(out, `filename = "/tmp/workload-`) {
		t.Errorf("no file name in:\n%s", out)
	}
}

func TestLiveRawTracepoint(t *testing.T) {
	guest.Require(t)
	runTogether(t, []targetCase{
		{`rawtp:sched_process_exec(p == $task, $task->tgid == $pid, $task->comm == "second", $task->real_parent->tgid != $pid)`, "exec read", "second", "rawtp:sched_process_exec", 1},
		{`rawtp:sched_process_exec(p->comm == "exe", p->tgid == $pid, bprm->file->f_inode->i_size > 1000)`, "fork -children 3", "exe", "rawtp:sched_process_exec", 3},
		{`rawtp:task_rename(comm == "second", task->comm == "workload", (long)task < 0)`, "exec read", "workload", "rawtp:task_rename", 1},
		{fmt.Sprintf("rawtp:sys_enter(id == %d, regs->%s == 77)", unix.SYS_READ, thirdReg), "read -count 3 -size 77", "workload", "rawtp:sys_enter", 3},
		{fmt.Sprintf("rawtp:sys_exit(ret == -21, regs->%s == %d)", syscallReg, unix.SYS_READ), "read-dir -count 3", "workload", "rawtp:sys_exit", 3},
		{`rawtp:sched_process_exec(str(bprm->filename) ~ "*/second", old_pid > 1)`, "exec read", "second", "rawtp:sched_process_exec", 1},
		{"rawtp:net_dev_queue(skb->len == 98, skb->dev->name == \"lo\")", "udp-send -count 3 -size 56", "workload", "rawtp:net_dev_queue", 3},
	})
}

// TestLiveInstruction: at the first instructions of vfs_read its parameters are
// still in their registers. Only the kernel says where instructions begin.
func TestLiveInstruction(t *testing.T) {
	guest.Require(t)
	work := []string{"--", "workload", "read", "-count", "3", "-size", "77"}
	attached, refused, last := 0, 0, 0
	// Each try is a start of ksnoop. These have instructions and none, behind a landing pad of 4 bytes and a call of 5,
	// or where all have 4; should they not, all places are tried.
	offsets := []int{0, 1, 4, 8, 9}
	for off := range 24 {
		if !slices.Contains(offsets, off) {
			offsets = append(offsets, off)
		}
	}
	for _, off := range offsets {
		if attached == 3 {
			break
		}
		spec := fmt.Sprintf("kprobe:vfs_read+%#x(%s == 77, %[3]s, ((struct file *)%[3]s)->f_mode & 1, hex($sp))", off, thirdArg, firstArg)
		stdout, stderr, status := ksnoop(t, append([]string{"trace", spec}, work...)...)
		if status != 0 {
			refused++
			if !strings.Contains(stderr, "no instruction begins there") || strings.Contains(stderr, "not found") {
				t.Errorf("offset %#x is refused with:\n%s", off, stderr)
			}
			continue
		}
		attached, last = attached+1, off
		name := "kprobe:vfs_read"
		if off != 0 {
			name = fmt.Sprintf("kprobe:vfs_read+%#x", off)
		}
		if n := records(stdout, "workload", name); n != 3 || strings.Count(stdout, firstArg+" = (long unsigned int)0xff") != 3 {
			t.Errorf("%s: %d records of 3:\n%s%s", spec, n, stdout, stderr)
		}
	}
	if attached == 0 || refused == 0 {
		t.Errorf("%d probes attached, %d refused: expected some of both", attached, refused)
	}
	// A breakpoint is not what --no-irq is about.
	targetCase{fmt.Sprintf("kprobe:vfs_read+%#x(%s == 77)", last, thirdArg), "read -count 3 -size 77", "workload", fmt.Sprintf("kprobe:vfs_read+%#x", last), 3}.run(t, "--no-irq")
	targetCase{"kprobe:vfs_read(count == 77, " + thirdArg + " == count)", "read -count 3 -size 77", "workload", "kprobe:vfs_read", 3}.run(t)
}

// TestLiveTargetFaults: what does not exist is refused with what may have been
// meant, all of it at once, and nothing is left behind.
func TestLiveTargetFaults(t *testing.T) {
	guest.Require(t)
	faults := map[string]string{
		"syscall:opennat":                      `there is no system call "opennat"; did you mean "openat"?`,
		"syscall:read(cuont)":                  `did you mean "count"?`,
		"tp:sched:sched_swich":                 `there is no tracepoint "sched:sched_swich"; did you mean "sched:sched_switch"?`,
		"tp:shed:task_newtask":                 `did you mean "task:task_newtask"?`,
		"tp:sched:sched_switch(return)":        "tp:sched:sched_switch is passed, and does not return",
		"tp:sched:sched_switch(next_pod)":      `did you mean "next_pid"?`,
		"rawtp:sched_swich":                    `there is no raw tracepoint "sched_swich"; did you mean "sched_switch"?`,
		"rawtp:sched_switch($duration > 10ms)": "rawtp:sched_switch is passed, and does not return",
		"kprobe:vfs_raed+4":                    `did you mean "vfs_read"`,
		"kprobe:vfs_read+0x5000":               "there is no instruction 0x5000 of vfs_read; it has 0x",
		"kprobe:vfs_read+4($ssp)":              `did you mean "$sp"?`,
		"sysctl:read":                          `"sysctl" is not a kind of target`,
	}
	specs := slices.Sorted(maps.Keys(faults))
	stdout, stderr, status := ksnoop(t, append([]string{"trace"}, specs...)...)
	if status != 2 || stdout != "" || strings.Count(stderr, "\n  column ") != len(specs) {
		t.Errorf("status %d, stdout %q, stderr:\n%s\nwant status 2 and %d faults", status, stdout, stderr, len(specs))
	}
	for spec, want := range faults {
		_, said, _ := strings.Cut(stderr, "  "+spec+"\n")
		_, said, _ = strings.Cut(said, "\n  column ")
		if said, _, _ = strings.Cut(said, "\n"); !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %s", spec, said, want)
		}
	}
	if out, err := exec.Command("sh", "-c", "wc -l < /sys/kernel/tracing/kprobe_events").Output(); err != nil || strings.TrimSpace(string(out)) != "0" {
		t.Errorf("kprobe events are left: %s, %v", out, err)
	}
}

// TestLiveSignature selects functions by what they take: ip_send_skb is one of
// those that hand a packet on, and calls it skb.
func TestLiveSignature(t *testing.T) {
	guest.Require(t)
	targetCase{"ip_s*(:struct sk_buff *, return int)($any(struct sk_buff *)->len == 84)", "udp-send -count 3 -size 56", "workload", "ip_send_skb", 3}.run(t)
	targetCase{"ip_send*()", "udp-send -count 3 -size 56", "workload", "ip_send_skb", 0}.run(t, "-d", "*(:struct sk_buff *)")
	_, stderr, status := ksnoop(t, "trace", "*(:struct sk_bufff *)")
	if status != 2 || !strings.Contains(stderr, `the kernel has no type "struct sk_bufff"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestLiveTargetReplay: a recording has what it takes to print targets again.
func TestLiveTargetReplay(t *testing.T) {
	guest.Require(t)
	file := filepath.Join(t.TempDir(), "recording")
	args := []string{"--record", file, "--force", "syscall:read(count == 77, return == 77, buf)", "tp:syscalls:sys_enter_read(count == 77)",
		fmt.Sprintf("rawtp:sys_enter(regs->%s == 77, id == %d)", thirdReg, unix.SYS_READ), "kprobe:vfs_read(" + thirdArg + " == 77)", "--", "workload", "read", "-count", "2", "-size", "77"}
	traced(t, append([]string{"trace"}, args...)...)
	out := traced(t, "replay", file)
	for _, name := range []string{"syscall:read", "tp:syscalls:sys_enter_read", "rawtp:sys_enter", "kprobe:vfs_read"} {
		if n := records(out, "workload", name); n != 2 {
			t.Errorf("%d records of %s, want 2:\n%s", n, name, out)
		}
	}
}
