// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// ksnoop runs the program as a user would and returns what it printed.
func ksnoop(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return printed(t, "ksnoop", args...)
}

// skipped matches what ksnoop prints when the kernel has not run all programs: see
// docs/losses.md. On kernels that preempt programs it may happen at any time.
var skipped = regexp.MustCompile(`(?m)^ksnoop: ([1-9]\d*) calls or returns not seen because the kernel (?:skips tracing programs|has no room) `)

// printed runs a program that is ksnoop, or that becomes it, and returns what it
// printed. A run in which the kernel has skipped programs tells nothing about
// what the test is after: there is another one, but not for ever.
func printed(t *testing.T, name string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	for range 5 {
		stdout, stderr, status = printedOnce(t, name, args...)
		if !skipped.MatchString(stderr) || !preempts(t) {
			break
		}
		t.Logf("%s %q: %s", name, args, stderr)
	}
	return stdout, stderr, status
}

// preempts reports whether the kernel preempts itself, and so programs.
func preempts(t *testing.T) bool {
	t.Helper()
	mode, err := os.ReadFile("/sys/kernel/debug/sched/preempt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Contains(string(mode), "(full)") || strings.Contains(string(mode), "(lazy)")
}

func printedOnce(t *testing.T, name string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// traced is ksnoop where all must go well. It returns stdout.
func traced(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := ksnoop(t, args...)
	if status != 0 || stderr != "" {
		t.Fatalf("ksnoop %q: status %d, stderr:\n%s", args, status, stderr)
	}
	return stdout
}

// block matches a record's first line: task, PID and function.
var block = regexp.MustCompile(`(?m)^ *(\S+) +(\d+) +\d+ +\d+\.\d{6} ([\w.:+]+)\($`)

// records counts the records of a function made by tasks of a name.
func records(out, comm, function string) int {
	n := 0
	for _, m := range block.FindAllStringSubmatch(out, -1) {
		if m[1] == comm && m[3] == function {
			n++
		}
	}
	return n
}

// attachMethods are the ways of attaching that the kernel has; TestLiveMethods
// says which those are.
var attachMethods = sync.OnceValue(func() (names []string) {
	for _, m := range []struct {
		name  string
		needs attach.Capability
	}{{"fentry", attach.CapFexit}, {"kprobe", attach.CapKretprobe}, {"multi", attach.CapKprobeMulti}, {"session", attach.CapKprobeSession},
		{"fsession", attach.CapFsession}, {"tracing_multi", attach.CapTracingMulti}} {
		if m.needs.Probe() == nil {
			names = append(names, m.name)
		}
	}
	return names
})

// methods runs a test with each way of attaching. A smoke run has another one for
// each test: TestLiveKernels tries them all.
func methods(t *testing.T, test func(t *testing.T, flag string)) {
	all := attachMethods()
	if livetest.Smoke() {
		m := methodsTaken % len(all)
		methodsTaken++
		all = all[m : m+1]
	}
	for _, m := range all {
		t.Run(m, func(t *testing.T) { test(t, "--attach="+m) })
	}
}

// methodsTaken is how many tests of a smoke run have taken a method.
var methodsTaken int

// inTurn runs cases, each with one way of attaching, and all of these. It is
// for what the two have little to do with each other.
func inTurn[C any](t *testing.T, cases []C, test func(t *testing.T, flag string, c C)) {
	all := attachMethods()
	n := max(len(cases), len(all))
	if livetest.Smoke() {
		n = len(cases)
	}
	for i := range n {
		m := all[i%len(all)]
		t.Run(fmt.Sprint(m, " ", i%len(cases)), func(t *testing.T) { test(t, "--attach="+m, cases[i%len(cases)]) })
	}
}

// offered reports whether a kernel like the one that runs has a method, by the first
// series of Debian's kernels that has it: 6.1 has no FPROBE, nor has 6.12 on arm64.
func offered(t *testing.T, method string) bool {
	t.Helper()
	since := map[string][2]int{"fentry": {5, 5}, "kprobe": {4, 0}, "multi": {6, 2}, "session": {6, 10}, "fsession": {7, 0}, "tracing_multi": {7, 3}}
	if runtime.GOARCH == "arm64" {
		since["multi"], since["session"], since["tracing_multi"] = [2]int{6, 13}, [2]int{6, 13}, [2]int{99, 0}
	}
	first, ok := since[method]
	if !ok {
		t.Fatalf("since when there is %s is not known", method)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var release [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &release[0], &release[1]); err != nil {
		t.Fatal(err)
	}
	return slices.Compare(release[:], first[:]) >= 0
}

// TestLiveMethods: what the guests can, and what is said of what they cannot.
func TestLiveMethods(t *testing.T) {
	guest.Require(t)
	for _, m := range offeredMethods(t) {
		if m == "auto" {
			continue
		}
		ok := offered(t, m)
		for _, spec := range []string{"vfs_read(count == 12345)", "vfs_read(count == 12345, return)"} {
			_, stderr, status := ksnoop(t, "trace", "--attach="+m, spec, "--", "true")
			if (status == 0) != ok || !ok && (strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "not supported") || !strings.Contains(stderr, "--attach auto")) {
				t.Errorf("--attach=%s %s: status %d, %s", m, spec, status, stderr)
			}
		}
	}
}

func TestLiveMember(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "ip_send_skb(skb->len == 84, skb)", "--", "workload", "udp-send", "-size", "56", "-count", "3")
		if n := records(out, "workload", "ip_send_skb"); n != 3 {
			t.Errorf("%d records of 3 calls:\n%s", n, out)
		}
		if n := strings.Count(out, "\n            .len = (unsigned int)84,\n"); n != 3 {
			t.Errorf("%d sk_buffs with a len of 84, want 3:\n%s", n, out)
		}
		out = traced(t, "trace", attach, "ip_send_skb(skb->len == 84, skb)", "--", "workload", "udp-send", "-size", "57", "-count", "3")
		if n := records(out, "workload", "ip_send_skb"); n != 0 {
			t.Errorf("%d records of calls with another size:\n%s", n, out)
		}
	})
}

// counting traces a workload with many SPECs of one function at once, which
// costs one start of ksnoop. An item of its own tells the records of each.
func counting(t *testing.T, attach, function string, want map[string]int, work ...string) {
	t.Helper()
	args := []string{"trace", attach}
	items := slices.Sorted(maps.Keys(want))
	mark := func(i int) string { return fmt.Sprintf("$tid + %d", 1000+i) }
	for i, item := range items {
		args = append(args, fmt.Sprintf("%s(%s, %s)", function, item, mark(i)))
	}
	out := traced(t, append(append(args, "--", "workload"), work...)...)
	for i, item := range items {
		n := 0
		for _, b := range bodies(out, function) {
			if strings.Contains(b, " "+mark(i)+" = ") {
				n++
			}
		}
		if n != want[item] {
			t.Errorf("%s(%s) on %s: %d records, want %d:\n%.5000s", function, item, work, n, want[item], out)
		}
	}
}

// TestLiveReturn counts on what internal/workload says: read-dir makes each
// vfs_read return -EISDIR.
func TestLiveReturn(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		counting(t, attach, "vfs_read", map[string]int{
			"return < 0":                       4,
			"return < 0, count == 64":          4,
			"return < 0, count == 65":          0,
			"return == -EISDIR":                4,
			"return == -EISDIR && count > 100": 0,
			"return == -EISDIR && count < 100": 4,
			"return == -EISDIR && count < 100, file->f_inode->i_mode & S_IFDIR": 4,
			"file->f_inode->i_sb->s_magic != 0, return == -EISDIR":              4,
		}, "read-dir", "-count", "4", "-size", "64")
		counting(t, attach, "vfs_read", map[string]int{
			"return < 0":                   0,
			"count == 77, return == count": 5,
			"count == 77, return < count":  0,
		}, "read", "-count", "5", "-size", "77")
		// The Go runtime opens a file or two that guests do not have.
		out := traced(t, "trace", attach, "do_sys_openat2(return == -ENOENT, filename)", "--", "workload", "open-missing", "-count", "3")
		if n := records(out, "workload", "do_sys_openat2"); n < 3 {
			t.Errorf("%d records of 3 failed calls:\n%s", n, out)
		}
	})
}

// TestLiveMacros: the kernel's macros come from the print formats of its tracepoints. A
// UDP socket allocates with GFP_KERNEL, which is 0xcc0, for each datagram.
func TestLiveMacros(t *testing.T) {
	guest.Require(t)
	counting(t, "--attach=auto", "alloc_skb_with_frags", map[string]int{
		"gfp_mask == GFP_KERNEL": 3,
		"gfp_mask == 0xcc0":      3,
		"gfp_mask == GFP_ATOMIC": 0,
		"(gfp_mask & GFP_USER) == GFP_NOFS + __GFP_FS, !(gfp_mask & __GFP_ZERO)": 3,
		"!(gfp_mask & __GFP_DIRECT_RECLAIM)":                                     0,
	}, "udp-send", "-count", "3")
	_, errs, status := ksnoop(t, "trace", "vfs_read(file->f_mode & FMODE_READ)")
	if want := `vfs_read has no parameter "FMODE_READ", and no enum has such a value; `; status != 2 || !strings.Contains(errs, want) ||
		!strings.Contains(errs, "macros in the print formats of tracepoints") {
		t.Errorf("a macro of which nothing tells: status %d: %s", status, errs)
	}
}

// TestLiveVoid: of a function that returns nothing both ends are printed, whether or
// not the filters could decide otherwise at its end.
func TestLiveVoid(t *testing.T) {
	guest.Require(t)
	inTurn(t, [][]string{nil, {"-n", "workload"}}, func(t *testing.T, attach string, filter []string) {
		args := append([]string{"trace", attach, "fput"}, filter...)
		out := traced(t, append(args, quiet("read -count 3 -size 123")...)...)
		entries, returns := 0, 0
		for _, b := range bodies(out, "fput") {
			switch {
			case b == "\n        return;\n\n":
				returns++
			case strings.HasPrefix(b, "\n        file = "):
				entries++
			default:
				t.Errorf("neither the entry nor the return of fput:\n%s", b)
			}
		}
		if entries == 0 || returns != entries {
			t.Errorf("%d entries and %d returns:\n%.5000s", entries, returns, out)
		}
	})
}

func TestLiveWholeCall(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "vfs_read", "--", "workload", "read", "-count", "1", "-size", "123")
		entry := regexp.MustCompile(`vfs_read\(
        file = \*\(struct file\)\{
(?s:.*?)
        buf = 0x[0-9a-f]+
        /\* Cannot show 'buf' as 'char \*'\.
         \* Userspace/invalid ptr\? \*/,

        count = \(size_t\)123,

        pos = \(loff_t \*\)0x[0-9a-f]+ = \(loff_t\)0

\);`)
		if !entry.MatchString(out) {
			t.Errorf("no such entry:\n%s", out)
		}
		if !strings.Contains(out, "        return = (ssize_t)123\n\n);\n") {
			t.Errorf("no such return:\n%s", out)
		}
	})
}

// TestLiveSplit has a predicate on memory at entry and wants the return, which
// comes in a record of its own.
func TestLiveSplit(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "ip_send_skb(skb->len == 84, return)", "--", "workload", "udp-send", "-size", "56", "-count", "2")
		if n := strings.Count(out, "skb->len = (unsigned int)84\n"); n != 2 {
			t.Errorf("%d entries, want 2:\n%s", n, out)
		}
		if n := strings.Count(out, "return = (int)0\n"); n != 2 {
			t.Errorf("%d returns, want 2:\n%s", n, out)
		}
		out = traced(t, "trace", attach, "ip_send_skb(skb->len == 84, return)", "--", "workload", "udp-send", "-size", "55", "-count", "2")
		if n := records(out, "workload", "ip_send_skb"); n != 0 {
			t.Errorf("%d records of calls that do not match:\n%s", n, out)
		}
	})
}

// TestLiveRecursion: a chain of n epoll descriptors makes
// ep_loop_check_proc call itself n*(n-1)/2 times, all of which return 0.
func TestLiveRecursion(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "ep_loop_check_proc(depth, return >= 0)", "--", "workload", "nested", "-depth", "4")
		if n := records(out, "workload", "ep_loop_check_proc"); n != 6 {
			t.Errorf("%d records of 6 calls:\n%s", n, out)
		}
	})
}

func TestLiveStrings(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		specs := map[string]int{}
		for pattern, want := range map[string]int{
			`== "zero"`: 1, `== "zer"`: 0, `== "zero1"`: 0, `!= "zero"`: 0, `~ "ze*"`: 1, `~ "*ro"`: 1, `~ "*er*"`: 1,
			`~ "z*o"`: 1, `~ "z?ro"`: 1, `~ "????"`: 1, `~ "z*r*o"`: 1, `~ "zer"`: 0, `~ "*rx"`: 0, `~ "*rx*"`: 0,
			`~ "z*or"`: 0, `~ "???"`: 0, `~ "?????"`: 0, `~ "zero?"`: 0, `~ "zer*ero"`: 0,
		} {
			// The second item leaves out what the Go runtime opens.
			const name = "path->dentry->d_name.name"
			specs[fmt.Sprintf(`%s %s, %s ~ "ze*", $comm == "workload"`, name, pattern, name)] = want
		}
		counting(t, attach, "vfs_open", specs, "open", "-file", "/dev/zero")
		out := traced(t, "trace", attach, "vfs_write(buf(user(buf), count), buf(user(buf), 3), ustr(buf))", "--", "echo", "hello")
		for _, want := range []string{`buf(user(buf), count) = "hello\n"`, `buf(user(buf), 3) = "hel"`, `ustr(buf) = "hello`} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in:\n%s", want, out)
			}
		}
	})
}

// TestLiveEmptyString: of an empty string of user space the kernel's helper says
// another length than of one of its own. What else the Go runtime opens may lie
// in pages that are not in memory, which is counted on stderr.
func TestLiveEmptyString(t *testing.T) {
	guest.Require(t)
	out, errs, status := ksnoop(t, "trace", `do_sys_openat2(ustr(filename) == "", ustr(filename) ~ "*", $tid + 1000)`,
		`do_sys_openat2(ustr(filename) == "", ustr(filename) ~ "?*", $tid + 1001)`, "--", "workload", "open-missing", "-file", "", "-count", "3")
	empty, longer := strings.Count(out, "$tid + 1000 = "), strings.Count(out, "$tid + 1001 = ")
	if empty != 3 || longer != 0 || status != 0 {
		t.Errorf("%d of 3 empty names match *, %d match ?*, status %d:\n%s%s", empty, longer, status, out, errs)
	}
}

// TestLivePID traces a process that was there before, and no other, and stops
// when that ends.
func TestLivePID(t *testing.T) {
	guest.Require(t)
	if _, stderr, status := ksnoop(t, "trace", "-p", "99999", "vfs_read"); status != 1 || stderr != "ksnoop: there is no process 99999\n" {
		t.Errorf("no such process: status %d, %s", status, stderr)
	}
	work := exec.Command("sh", "-c", "read go; exec workload read -count 2 -size 23")
	start, err := work.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	trace := startTrace(t, "-p", fmt.Sprint(work.Process.Pid), "vfs_read(count == 23)")
	other := exec.Command("workload", "read", "-count", "2", "-size", "23")
	if err := other.Run(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(start, "go")
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	out, status := trace.wait(t)
	for _, m := range block.FindAllStringSubmatch(out, -1) {
		if m[2] != fmt.Sprint(work.Process.Pid) {
			t.Errorf("a record of process %s, want %d", m[2], work.Process.Pid)
		}
	}
	if n := records(out, "workload", "vfs_read"); n != 2 || status != 0 {
		t.Errorf("%d records, status %d, want 2 and 0:\n%s", n, status, out)
	}
}

func TestLiveStatus(t *testing.T) {
	guest.Require(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		if _, stderr, status := ksnoop(t, "trace", "vfs_read(count == 12345)", "--", "sh", "-c", script); status != want {
			t.Errorf("%s: status %d, want %d: %s", script, status, want, stderr)
		}
	}
	if _, stderr, status := ksnoop(t, "trace", "vfs_read", "--", "no-such-command"); status != 1 || !strings.Contains(stderr, "no-such-command") {
		t.Errorf("missing command: status %d, %s", status, stderr)
	}
}

// A running is a ksnoop in the background that has attached.
type running struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	errs bytes.Buffer // complete after wait; of startSessions, behind what says that they are traced
	eof  chan error
}

// startTrace starts ksnoop and waits until it has printed its header, which it
// does when everything is attached.
func startTrace(t testing.TB, args ...string) *running {
	t.Helper()
	return startTracer(t, exec.Command("ksnoop", append([]string{"trace"}, args...)...))
}

// startTracer is startTrace for a command that becomes ksnoop, or runs it.
func startTracer(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, eof: make(chan error, 1)}
	r.cmd.Stderr = io.MultiWriter(os.Stderr, &r.errs)
	pipe, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, 1)
	if _, err := io.ReadFull(pipe, header); err != nil {
		t.Fatal(err)
	}
	r.out.Write(header)
	go func() {
		_, err := r.out.ReadFrom(pipe)
		r.eof <- err
	}()
	return r
}

// startSessions is startTrace for sessions, which have no header: that they are
// traced is said on the standard error.
func startSessions(t testing.TB, args ...string) *running {
	t.Helper()
	return startSessionTracer(t, exec.Command("ksnoop", append([]string{"trace"}, args...)...))
}

// startSessionTracer is startSessions for a command that becomes ksnoop, or runs it.
func startSessionTracer(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, eof: make(chan error, 1)}
	r.cmd.Stdout = &r.out
	pipe, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Receiving data") {
		t.Log(lines.Text())
	}
	go func() {
		_, err := io.Copy(io.MultiWriter(os.Stderr, &r.errs), pipe)
		r.eof <- err
	}()
	return r
}

func (r *running) wait(t testing.TB) (out string, status int) {
	t.Helper()
	select {
	case err := <-r.eof:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(livetest.Patience(time.Minute)):
		t.Fatal("ksnoop does not end")
	}
	if err := r.cmd.Wait(); err != nil && r.cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return r.out.String(), r.cmd.ProcessState.ExitCode()
}

func TestLiveInterrupt(t *testing.T) {
	guest.Require(t)
	for _, sig := range stopSignals {
		r := startTrace(t, "vfs_read(count == 29)")
		if err := exec.Command("workload", "read", "-count", "2", "-size", "29").Run(); err != nil {
			t.Fatal(err)
		}
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		out, status := r.wait(t)
		if n := records(out, "workload", "vfs_read"); n != 2 || status != 0 {
			t.Errorf("%v: %d records, status %d, want 2 and 0:\n%s", sig, n, status, out)
		}
	}
}

func TestLivePipe(t *testing.T) {
	guest.Require(t)
	out, err := exec.Command("timeout", "60", "sh", "-c", "ksnoop trace vfs_read -- workload read -count 2000 | head -n 5 | wc -l").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "5" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLiveWithoutRoot(t *testing.T) {
	guest.Require(t)
	path, err := exec.LookPath("ksnoop")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"trace vfs_read":          "ksnoop: cannot trace: privileges",
		"trace vfs_read(cuont)":   "ksnoop: a fault in the SPEC",
		"info ip_send_skb":        "int ip_send_skb(struct net * net, struct sk_buff * skb);\n",
		"info --types struct$pid": "struct pid {",
	} {
		var fields []string
		for _, f := range strings.Fields(args) {
			fields = append(fields, strings.ReplaceAll(f, "$", " "))
		}
		cmd := exec.Command(path, fields...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput()
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: printed\n%s\nwant it to begin with %q", args, out, want)
		}
	}
}
