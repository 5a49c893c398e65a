// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// A fallbackCase is a run of ksnoop on a kernel that lacks something.
type fallbackCase struct {
	args   []string
	work   string // of the workload; "" for none that is awaited
	name   string // of what is traced
	want   int    // records
	status int
	says   string // on stderr; "" for nothing at all
}

func (c fallbackCase) run(t *testing.T, ksnoop func(args ...string) (stdout, stderr string, status int)) {
	t.Helper()
	work := []string{"--", "true"}
	if c.work != "" {
		work = append([]string{"--", "workload"}, strings.Fields(c.work)...)
	}
	stdout, stderr, status := ksnoop(append(append([]string{"trace"}, c.args...), work...)...)
	n := records(stdout, "workload", c.name)
	if status != c.status || n != c.want || c.says == "" && stderr != "" || !strings.Contains(stderr, c.says) {
		t.Errorf("%q: status %d, %d records; want %d, %d and %q on stderr:\n%s%s", c.args, status, n, c.status, c.want, c.says, stdout, stderr)
	}
}

// TestLiveHiddenAddresses: with kptr_restrict 2 root sees no addresses either.
// What needs none works; what does says what to do.
func TestLiveHiddenAddresses(t *testing.T) {
	guest.Require(t)
	clean(t)
	guest.Sysctl(t, "kernel.kptr_restrict", "2")
	const read, remedy = "read -count 3 -size 77", "addresses are hidden: as root, sysctl kernel.kptr_restrict=1"
	many := []string{"vfs_*()"}
	if attach.Supported(layout.MethodTracingMulti, nil) == nil { // which takes types instead
		many = append(many, "--attach=multi")
	}
	for _, c := range []fallbackCase{
		{args: []string{"vfs_read(count == 77, return == count)"}, work: read, name: "vfs_read", want: 3},
		{args: []string{"--stack", "vfs_read(count == 77)"}, work: read, name: "vfs_read", want: 3, says: "stacks are not shown, their addresses have no names: /proc/kallsyms: " + remedy},
		{args: many, status: 1, says: "many functions at once are hooked by their addresses: /proc/kallsyms: " + remedy},
	} {
		c.run(t, func(args ...string) (string, string, int) { return ksnoop(t, args...) })
	}
}

// TestLiveNoTracefs: without tracefs there are no tracepoints by name, and many
// kprobes take longer.
func TestLiveNoTracefs(t *testing.T) {
	guest.Require(t)
	clean(t)
	const read = "read -count 3 -size 77"
	for _, c := range []fallbackCase{
		{args: []string{"--attach=kprobe", "vfs_read(count == 77, return == count)"}, work: read, name: "vfs_read", want: 3},
		{args: []string{"--attach=kprobe", "-v", "vfs_r*()", "vfs_s*()", "vfs_l*()", "-d", "vfs_read"}, says: "tracefs is not there, so that each kprobe takes an event of its own"},
		{args: []string{"--attach=kprobe", "vfs_read(count == 77, return == count)", "vfs_s*()", "vfs_l*()", "vfs_w*()", "vfs_g*()"}, work: read, name: "vfs_read", want: 3,
			says: "tracefs is not there, so that each kprobe takes an event of its own"},
		{args: []string{"tp:sched:sched_process_exec"}, status: 1, says: "mount -t tracefs tracefs /sys/kernel/tracing to get the tracepoints"},
		{args: []string{"syscall:read(count == 77)"}, status: 1, says: "mount -t tracefs tracefs /sys/kernel/tracing"},
	} {
		c.run(t, func(args ...string) (string, string, int) {
			return hiding(t, []string{"/sys/kernel/tracing", "/sys/kernel/debug"}, args...)
		})
	}
}

// TestLiveSwitchedOff: with ftrace or kprobes switched off, what they serve is refused, since all could be attached and nothing would be
// seen. Tracepoints are traced.
func TestLiveSwitchedOff(t *testing.T) {
	guest.Require(t)
	const read = "read -count 3 -size 77"
	const off = ": off (ftrace_enabled is 0)\nsysctl kernel.ftrace_enabled=1"
	// The kernel kills ftrace if programs are taken off functions while it is off. Those of the test before may still be.
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		hooked, err := os.ReadFile("/sys/kernel/tracing/enabled_functions")
		if err == nil && len(hooked) == 0 {
			break
		}
		if time.Since(begun) > livetest.Patience(20*time.Second) {
			t.Fatalf("functions are hooked: %v\n%s", err, hooked)
		}
	}
	const file = "/proc/sys/kernel/ftrace_enabled"
	if err := os.WriteFile(file, []byte("0"), 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel, as Linux 7.3, does not let ftrace be switched off")
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []fallbackCase{
		{args: []string{"vfs_read(count == 77)"}, status: 1, says: off},
		{args: []string{"--attach=fentry", "vfs_read(count == 77)"}, status: 1, says: off},
		{args: []string{"-e", "do_sys_openat2"}, status: 1, says: off},
		{args: []string{"tp:syscalls:sys_enter_read(count == 77)"}, work: read, name: "tp:syscalls:sys_enter_read", want: 3},
	} {
		c.run(t, func(args ...string) (string, string, int) { return ksnoop(t, args...) })
	}
}

// TestLiveSwitchedOffMeanwhile: what was not seen since kprobes were switched off is said, by a replay, too.
func TestLiveSwitchedOffMeanwhile(t *testing.T) {
	guest.Require(t)
	const file = "/sys/kernel/debug/kprobes/enabled"
	t.Cleanup(func() {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			t.Error(err)
		}
	})
	recording := filepath.Join(t.TempDir(), "off.ks")
	check := func(args ...string) {
		t.Helper()
		stdout, stderr, status := printed(t, "sh", append([]string{"-c", "echo 1 >" + file + `; exec ksnoop "$@"`, "sh"}, args...)...)
		if n := strings.Count(stdout, "vfs_read("); n != 3 || status != 0 || strings.Count(stderr, "1 switch of the kernel's, for ftrace or kprobes, was off at the end") != 1 {
			t.Errorf("%q: status %d, %d calls:\n%s%s", args, status, n, stdout, stderr)
		}
	}
	check("trace", "--record", recording, "--force", "--print", "--attach=kprobe", "vfs_read(count == 77)", "--",
		"sh", "-c", "workload read -count 3 -size 77; echo 0 >"+file+"; workload read -count 4 -size 77")
	check("replay", recording)
}

// TestLiveModuleWithoutBTF: the functions of a module that was built without
// types are traced by their registers.
func TestLiveModuleWithoutBTF(t *testing.T) {
	guest.Require(t)
	clean(t)
	loadModule(t, "ksnoop_nest", "")
	if _, err := os.Stat("/sys/kernel/btf/ksnoop_nest"); err == nil {
		t.Fatal("the module has BTF: the test does not test")
	}
	for _, c := range []struct {
		args   []string
		want   string
		status int
	}{
		{[]string{"ksnoop_nest((int)$arg1 == 3)"}, "ksnoop_nest(", 0},
		{[]string{"ksnoop_nest(more == 3)"}, "its module has no BTF, or BTF does not describe it: $arg1", 2},
		{[]string{"--attach=fentry", "ksnoop_nest"}, "BTF has no signature of it", 1},
	} {
		args := append(append([]string{"trace"}, c.args...), "--", "sh", "-c", "echo 5 > /sys/module/ksnoop_nest/parameters/depth")
		stdout, stderr, status := ksnoop(t, args...)
		if n := strings.Count(stdout+stderr, c.want); status != c.status || n != 1 {
			t.Errorf("%q: status %d, want %d and once %s:\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
	}
}

// TestLiveNoFentry: a function that takes variable arguments is none for a
// trampoline. Without a word said about how to attach, a kprobe does.
func TestLiveNoFentry(t *testing.T) {
	guest.Require(t)
	clean(t)
	run := func(args ...string) (string, string, int) { return ksnoop(t, args...) }
	fallbackCase{args: []string{"-v", "seq_printf()"}, says: "seq_printf: attached with kprobe"}.run(t, run)
	fallbackCase{args: []string{"--attach=fentry", "seq_printf()"}, status: 1, says: "fentry of seq_printf: BTF has no signature of it under this name that a trampoline could take; kprobes need none"}.run(t, run)
}

// TestLiveUnpaired: where the kernel does not tell programs at return where the call's stack is, kprobe.multi and kprobe.session are not
// used for returns. The programs would find nothing that was kept, or that of another call.
func TestLiveUnpaired(t *testing.T) {
	guest.Require(t)
	handler, ok := kernel.Open(os.DirFS("/")).SymbolNamed("return_to_handler", "")
	if runtime.GOARCH != "amd64" || !ok || guest.Kernel() == "6.1" || guest.Kernel() == "6.12" {
		t.Skip("fprobe hands over returns by return_to_handler on amd64, since Linux 6.14")
	}
	const refusal = "at return this kernel does not tell where the call's stack is"
	both, work := "vfs_read(count == 77, $duration, return == count)", "read -count 3 -size 77"
	for _, own := range []string{"0", "1"} {
		t.Run(own, func(t *testing.T) {
			loadModule(t, "ksnoop_blind", fmt.Sprintf("at=%#x own=%s", handler.Addr, own))
			for _, c := range []fallbackCase{
				{args: []string{"--attach=session", both}, status: 1, says: "kprobe.session is not used: " + refusal},
				{args: []string{"--attach=session", "vfs_read(count == 77)"}, work: work, name: "vfs_read", want: 3},
				{args: []string{"--attach=multi", both}, status: 1, says: "kretprobe.multi is not used: " + refusal},
				{args: []string{"--attach=multi", "vfs_read(count == 77)"}, work: work, name: "vfs_read", want: 3},
				{args: []string{"--attach=kprobe", both}, work: work, name: "vfs_read", want: 3},
				{args: []string{both}, work: work, name: "vfs_read", want: 3},
			} {
				c.run(t, func(args ...string) (string, string, int) { return ksnoop(t, args...) })
			}
		})
	}
	for _, m := range []string{"session", "multi"} {
		fallbackCase{args: []string{"--attach=" + m, both}, work: work, name: "vfs_read", want: 3}.run(t,
			func(args ...string) (string, string, int) { return ksnoop(t, args...) })
	}
}
