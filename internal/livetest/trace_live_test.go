// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

func TestLiveMember(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, "trace", attach, "ip_send_skb(skb->len == 84, skb)", "--", "sh", "-c", "workload udp-send -size 56 -count 3; workload udp-send -size 57 -count 3")
		if n := records(out, "workload", "ip_send_skb"); n != 3 {
			t.Errorf("%d records of 3 calls, and of 3 with another size:\n%s", n, out)
		}
		if n := strings.Count(out, "\n            .len = (unsigned int)84,\n"); n != 3 {
			t.Errorf("%d sk_buffs with a len of 84, want 3:\n%s", n, out)
		}
	})
}

// TestLiveKept: what is kept of a call until its result decides, of calls that return 33 and
// of one that returns 0: a number, 0, what cannot be read, and nothing but the time. /dev/zero
// is device 1:5, root's, and the buffer is in user space.
func TestLiveKept(t *testing.T) {
	guest.Require(t)
	for _, method := range []string{"fentry", "fsession"} {
		if !offered(t, method) {
			continue
		}
		out := traced(t, "trace", "--attach="+method, "-s", "none",
			"vfs_read(file->f_inode->i_rdev, return == 33)", "vfs_read(file->f_inode->i_uid.val, return == 33)",
			"vfs_read(((struct file *)buf)->f_flags, return == 33)", "vfs_read($duration < 1h, return == 33)", "vfs_read($duration > 1h, return == 33)",
			"--", "sh", "-c", "exec >/dev/null; "+steady+"dd if=/dev/null bs=33 count=1 2>/dev/null; workload read -size 33 -count 5")
		want := map[string]int{
			fmt.Sprintf(" file->f_inode->i_rdev = (dev_t)%d,", 1<<20|5): 5, " file->f_inode->i_uid.val = (uid_t)0,": 5,
			" ((struct file *)buf)->f_flags = ?\n": 5, " $duration = ": 5, "return = (ssize_t)33": 20, "return = ": 20}
		for text, n := range want {
			if got := strings.Count(out, text); got != n {
				t.Errorf("by %s: %q %d times, want %d:\n%s", method, text, got, n, out)
			}
		}
	}
}

// counting traces a workload with many SPECs of one function at once, which
// costs one start of ksnoop. An item of its own tells the records of each.
func counting(t *testing.T, attach, function string, want map[string]int, work ...string) {
	t.Helper()
	countingBeside(t, attach, nil, function, want, append([]string{"workload"}, work...)...)
}

// countingBeside is counting for a command, with other SPECs beside. It returns what is printed.
func countingBeside(t *testing.T, attach string, others []string, function string, want map[string]int, command ...string) string {
	t.Helper()
	args := append([]string{"trace", attach}, others...)
	items := slices.Sorted(maps.Keys(want))
	mark := func(i int) string { return fmt.Sprintf("$tid + %d", 1000+i) }
	for i, item := range items {
		args = append(args, fmt.Sprintf("%s(%s, %s)", function, item, mark(i)))
	}
	out := traced(t, append(append(args, "--"), command...)...)
	for i, item := range items {
		n := 0
		for _, b := range bodies(out, function) {
			if strings.Contains(b, " "+mark(i)+" = ") {
				n++
			}
		}
		if n != want[item] {
			t.Errorf("%s(%s) on %s: %d records, want %d:\n%.5000s", function, item, command, n, want[item], out)
		}
	}
	return out
}

// TestLiveReturn counts on what internal/workload says: read-dir makes each
// vfs_read return -EISDIR.
func TestLiveReturn(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		// The Go runtime opens a file or two that guests do not have.
		out := countingBeside(t, attach, []string{"do_sys_openat2(return == -ENOENT, filename)"}, "vfs_read", map[string]int{
			"return < 0":                       4,
			"return < 0, count == 64":          4,
			"return < 0, count == 65":          0,
			"return == -EISDIR":                4,
			"return == -EISDIR && count > 100": 0,
			"return == -EISDIR && count < 100": 4,
			"return == -EISDIR && count < 100, file->f_inode->i_mode & S_IFDIR": 4,
			"file->f_inode->i_sb->s_magic != 0, return == -EISDIR":              4,
			"count == 77, return == count":                                      5,
			"count == 77, return < count":                                       0,
		}, "sh", "-c", "workload read-dir -count 4 -size 64; workload read -count 5 -size 77; workload open-missing -count 3")
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
		out := traced(t, "trace", attach, "ip_send_skb(skb->len == 84, return)", "--", "sh", "-c", "workload udp-send -size 56 -count 2; workload udp-send -size 55 -count 2")
		if n := strings.Count(out, "skb->len = (unsigned int)84\n"); n != 2 {
			t.Errorf("%d entries, want 2:\n%s", n, out)
		}
		if n := strings.Count(out, "return = (int)0\n"); n != 2 {
			t.Errorf("%d returns, want 2:\n%s", n, out)
		}
		if n := records(out, "workload", "ip_send_skb"); n != 4 {
			t.Errorf("%d records, want an entry and a return of 2 calls, and none of 2 others:\n%s", n, out)
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
	for _, m := range blocksOf(out) {
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
	if _, stderr, status := ksnoop(t, "trace", "vfs_read", "--", "no-such-command"); status != 127 || !strings.Contains(stderr, "no-such-command") {
		t.Errorf("missing command: status %d, %s", status, stderr)
	}
}

// TestLiveCommandGoesOn: a signal to ksnoop alone ends the tracing and not the command. ksnoop says that it waits, and passes the
// status on; but it passes a hang-up on. Where -c has ended the tracing, it is silent until a signal comes.
func TestLiveCommandGoesOn(t *testing.T) {
	guest.Require(t)
	const script = `cd $0
ksnoop trace $1 'vfs_read(count == 29)' -- sh -c 'touch began; workload read -count 2 -size 29; while [ ! -e end ]; do sleep 0.1; done; exit 7' >out 2>err &
until [ -e began ]; do sleep 0.1; done
$2
touch end
wait $!
echo status $?
cat err`
	for _, c := range [][3]string{
		{"", "kill -HUP $!; sleep 3", `status 129\n`},
		{"", "kill -TERM $!; until grep -q waits err; do sleep 0.1; done",
			`status 7\nksnoop: tracing has ended; ksnoop waits for the command \(process \d+\), to pass its status on; another signal ends ksnoop at once\n`},
		{"-c1", "sleep 3", `status 7\n`},
		{"-c1 --expect 5", "sleep 3; kill -0 $! && echo it waits", `it waits\nstatus 3\nksnoop: --expect 5: there were 1\n`},
		{"-c1", "sleep 3; kill -TERM $!; until grep -q waits err; do sleep 0.1; done",
			`status 7\nksnoop: tracing has ended; ksnoop waits for the command \(process \d+\), to pass its status on; another signal ends ksnoop at once\n`},
	} {
		body := strings.Replace(script, "$2", c[1], 1)
		out, err := exec.Command("timeout", fmt.Sprint(int(livetest.Patience(time.Minute).Seconds())), "sh", "-c", body, t.TempDir(), c[0]).CombinedOutput()
		if err != nil || !regexp.MustCompile(`^`+c[2]+`$`).Match(out) {
			t.Errorf("%q: %v: %s", c, err, out)
		}
	}
}

func TestLiveInterrupt(t *testing.T) {
	guest.Require(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
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
	out, err := exec.Command("timeout", fmt.Sprint(int(livetest.Patience(time.Minute).Seconds())), "sh", "-c", "ksnoop trace vfs_read -- workload read -count 2000 | head -n 5 | wc -l").CombinedOutput()
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
