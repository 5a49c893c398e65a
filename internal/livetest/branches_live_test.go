// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

const branchModule = "ksnoop_branches"

// address returns that of a place such as "vfs_read+0x1a". view is the kernel's,
// which takes seconds to read.
func address(t *testing.T, view *kernel.View, place string) uint64 {
	t.Helper()
	name, offset, _ := strings.Cut(place, "+")
	var n uint64
	if offset != "" {
		var err error
		if n, err = strconv.ParseUint(offset, 0, 64); err != nil {
			t.Fatal(err)
		}
	}
	if s, ok := view.SymbolNamed(name, ""); ok {
		return s.Addr + n
	}
	// Trampolines are numbered.
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) { // an expression takes seconds for so many
		fields := strings.Fields(line)
		if number, ok := strings.CutPrefix(fields[2], name); !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return addr + n
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

// loadBranches loads the module that stands for the hardware, and returns the
// kernel's symbols.
func loadBranches(t *testing.T, params string) *kernel.View {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("on %s the kernel offers BPF no branch snapshot to stand in for", runtime.GOARCH)
	}
	view := kernel.Open(os.DirFS("/"))
	params = fmt.Sprintf("key=%#x tramp=%#x %s", address(t, view, "__SCK__perf_snapshot_branch_stack"), address(t, view, "__SCT__perf_snapshot_branch_stack"), params)
	loadModule(t, branchModule, params)
	t.Cleanup(func() {
		if n := branchParameter(t, "events"); n != "0" {
			t.Errorf("%s perf events are left open", n)
		}
	})
	return view
}

func branchParameter(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("/sys/module/" + branchModule + "/parameters/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// replayBranches has snapshots return these, newest first, each as "FROM TO FLAGS".
func replayBranches(t *testing.T, view *kernel.View, branches ...string) {
	t.Helper()
	text := "\n"
	for _, b := range branches {
		f := strings.Fields(b)
		text += fmt.Sprintf("%x:%x:%s ", address(t, view, f[0]), address(t, view, f[1]), f[2])
	}
	if err := os.WriteFile("/sys/module/"+branchModule+"/parameters/records", []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// branchRows returns the lines of a record's branches.
func branchRows(out string) string {
	_, rest, ok := strings.Cut(out, "\n        branches")
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	return "branches" + rest
}

// The whole path: perf events, the snapshot, the ring buffer, trimming, symbols.
func TestLiveBranches(t *testing.T) {
	guest.Require(t)
	view := loadBranches(t, "")
	own := []string{"kretprobe_dispatcher+0x10 kretprobe_perf_func+0x4 1", "__kretprobe_trampoline_handler+0x20 kretprobe_dispatcher 1"}
	if _, ok := view.SymbolNamed("__kretprobe_trampoline_handler", ""); !ok { // with rethooks
		own[1] = "rethook_trampoline_handler+0x20 kretprobe_dispatcher 1"
	}
	landing := landingPad(view)
	led := []string{"vfs_read+0xc8 " + landing + " 1", "read_zero+0x32 vfs_read+0x96 22", "vfs_read+0x78 read_zero 7c1"}
	many := append([]string{}, led...)
	for i := len(many); i < 40; i++ {
		many = append(many, fmt.Sprintf("ksys_read+%#x vfs_read+%#x 2", i, i))
	}
	var older []string
	for i := 31; i >= 3; i-- {
		older = append(older, fmt.Sprintf("            [#%02d] ksys_read+%#x  ->  vfs_read+%#x", i, i, i))
	}
	ledRows := func(shift int) []string {
		return []string{
			fmt.Sprintf("            [#%02d] vfs_read+0x78   ->  read_zero+0x0                  mispredicted, 124 cycles", 2+shift),
			fmt.Sprintf("            [#%02d] read_zero+0x32  ->  vfs_read+0x96                  2 cycles", 1+shift),
			fmt.Sprintf("            [#%02d] vfs_read+0xc8   ->  %s+0x0  mispredicted", shift, landing),
		}
	}
	blanks := regexp.MustCompile(` {2,}`)
	for i, c := range []struct {
		name    string
		records []string
		flags   []string
		want    []string
	}{
		{"none", nil, nil, []string{"branches: none"}},
		{"one", led[:1], nil, []string{"branches:", "            [#00] vfs_read+0xc8  ->  " + landing + "+0x0  mispredicted"}},
		{"own tail", append(append([]string{}, own...), led...), nil, append([]string{"branches: /* the newest 2 are the tracing's own */"}, ledRows(2)...)},
		{"16", many[:16], nil, append(append([]string{"branches:"}, older[16:]...), ledRows(0)...)},
		{"32", many[:32], nil, append(append([]string{"branches:"}, older...), ledRows(0)...)},
		{"more than fit", many, nil, append(append([]string{"branches:"}, older...), ledRows(0)...)},
		{"the newest", append(append([]string{}, own...), led...), []string{"--lbr-max", "1"},
			[]string{"branches: /* the newest 2 are the tracing's own */", "            [#02] vfs_read+0xc8  ->  " + landing + "+0x0  mispredicted"}},
		{"unfiltered", append(append([]string{}, own[:1]...), led[0]), []string{"--unfiltered"},
			[]string{"branches:", "            [#01] vfs_read+0xc8              ->  " + landing + "+0x0     mispredicted",
				"            [#00] kretprobe_dispatcher+0x10  ->  kretprobe_perf_func+0x4  mispredicted"}},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			replayBranches(t, view, c.records...)
			specs := []string{"vfs_read(return == 33)"}
			if c.name == "own tail" { // stashed, and with a record of the entry before
				specs = append(specs, "vfs_read(count == 33, return == 33)", "vfs_read(count == 33, return)")
			}
			for _, spec := range specs {
				args := append([]string{"trace", "--attach=kprobe", "-s", "none", "--lbr=any_return,cond"}, c.flags...)
				out := traced(t, append(append(args, spec), quiet("read -size 33 -count 1")...)...)
				got := blanks.ReplaceAllString(branchRows(out), "  ")
				want := blanks.ReplaceAllString(strings.Join(c.want, "\n"), "  ")
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: %s\n%s", spec, d, out)
				}
			}
			if got := branchParameter(t, "kinds"); got != strconv.Itoa(1<<1|1<<5|1<<10) { // kernel, any_return, cond
				t.Errorf("kinds %s", got)
			}
		})
	}
}

// With fexit, functions return to a trampoline, which comes into being when
// ksnoop attaches. A recording has the branches, and their names.
func TestLiveBranchesOfFexit(t *testing.T) {
	guest.Require(t)
	view := loadBranches(t, "")
	dir := t.TempDir()
	ready, goOn, file := filepath.Join(dir, "ready"), filepath.Join(dir, "go"), recordingFile(t)
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		replayBranches(t, view, "__bpf_prog_enter_recur+0x10 bpf_trampoline_+0x70 0", "vfs_read+0xc8 bpf_trampoline_+0x50 0", "bpf_trampoline_+0x4b vfs_read+0x5 0")
		if err := os.WriteFile(goOn, nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	script := "touch " + ready + "; while [ ! -e " + goOn + " ]; do sleep 0.1; done; workload read -size 33 -count 1 >/dev/null"
	out := traced(t, "trace", "--attach=fentry", "-s", "none", "--lbr", "--record", file, "--force", "--print", "vfs_read(return == 33)", "--", "sh", "-c", script)
	number := regexp.MustCompile(`bpf_trampoline_\d+`)
	want := "branches: /* the newest is the tracing's own */\n" +
		"            [#02] bpf_trampoline_N+0x4b [bpf]  ->  vfs_read+0x5\n" +
		"            [#01] vfs_read+0xc8                     ->  bpf_trampoline_N+0x50 [bpf]"
	blanks := regexp.MustCompile(` {2,}`)
	if d := cmp.Diff(blanks.ReplaceAllString(want, "  "), blanks.ReplaceAllString(number.ReplaceAllString(branchRows(out), "bpf_trampoline_N"), "  ")); d != "" {
		t.Errorf("%s\n%s", d, out)
	}
	if got, _, status := replayed(t, file); got != out || status != 0 {
		t.Errorf("replay, status %d:\n%s\ntrace:\n%s", status, got, out)
	}
}

// A CPU that records none is reported, and its records say so.
func TestLiveBranchesOfBrokenCPU(t *testing.T) {
	guest.Require(t)
	view := loadBranches(t, "broken_cpu=1")
	replayBranches(t, view, "vfs_read+0xc8 ksys_read+0x50 0")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	for cpu, want := range []string{"branches:\n            [#00] vfs_read+0xc8  ->  ksys_read+0x50", "branches: none, this CPU does not record them"} {
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil { // the command's, too
			t.Fatal(err)
		}
		out, stderr, status := ksnoop(t, append([]string{"trace", "-s", "none", "--lbr", "vfs_read(return == 33)"}, quiet("read -size 33 -count 1")...)...)
		if got := branchRows(out); got != want || status != 0 {
			t.Errorf("CPU %d, status %d: %s, want %s:\n%s", cpu, status, got, want, out)
		}
		if stderr != "ksnoop: --lbr: no branches of CPU 1: device or resource busy\n" {
			t.Errorf("stderr: %s", stderr)
		}
	}
}

// Without branch records it is said what they take, and what else was asked
// for goes on.
func TestLiveNoBranches(t *testing.T) {
	guest.Require(t)
	fault := "the CPUs record no branches for us (no such file or directory): this takes Intel LBR or AMD LbrExtV2, which virtual machines seldom pass on\n"
	if runtime.GOARCH == "arm64" {
		fault = "this kernel offers BPF no branch snapshot\n"
	}
	out, stderr, status := ksnoop(t, append([]string{"trace", "--lbr", "vfs_read(return == 33)"}, quiet("read -size 33 -count 1")...)...)
	if out != "" || stderr != "ksnoop: --lbr: "+fault || status != 1 {
		t.Errorf("status %d, stdout %q, stderr:\n%s", status, out, stderr)
	}
	out, stderr, status = ksnoop(t, append([]string{"trace", "--lbr", "--stack", "-s", "none", "vfs_read(return == 33)"}, quiet("read -size 33 -count 1")...)...)
	if n := records(out, "workload", "vfs_read"); n != 1 || strings.Contains(out, "branches") || stderr != "ksnoop: going on without --lbr: "+fault || status != 0 {
		t.Errorf("status %d, stderr:\n%s%s", status, stderr, out)
	}
}

// A failed session has the branches that led to the return of the function that
// failed first, in front of its stack.
func TestLiveBranchesOfSession(t *testing.T) {
	guest.Require(t)
	view := loadBranches(t, "")
	landing := landingPad(view)
	replayBranches(t, view, "kretprobe_dispatcher+0x10 kretprobe_dispatcher+0x4 0", "vfs_read+0xc8 "+landing+" 0", "ksys_read+0x30 vfs_read 0")
	want := "\n\n[#02] ksys_read+0x30  ->  vfs_read+0x0\n[#01] vfs_read+0xc8   ->  " + landing + "+0x0\n\n"
	for _, spec := range []string{"vfs_read", "vfs_read(count)"} { // the second has a program of its own
		out := traced(t, append([]string{"trace", "-K", "-s", "none", "--lbr", "-e", spec}, quiet("read-dir -count 1")...)...)
		_, rest, ok := strings.Cut(out, "\n\n[#")
		if !strings.Contains(out, want) || !ok || !strings.Contains(rest, "[-EISDIR]") {
			t.Errorf("%s: want %q before the stack:\n%s", spec, want, out)
		}
	}
	out := traced(t, append([]string{"trace", "-K", "-s", "none", "--lbr", "--lbr-max=1", "--unfiltered", "-S", "-e", "vfs_read"}, quiet("read -count 1")...)...)
	if !strings.Contains(out, "\n\n[#00] kretprobe_dispatcher+0x10  ->  kretprobe_dispatcher+0x4\n\n") {
		t.Errorf("a session that did not fail:\n%s", out)
	}
}

// landingPad is what functions with a return probe return to.
func landingPad(view *kernel.View) string {
	const old = "__kretprobe_trampoline"
	if _, ok := view.SymbolNamed(old, ""); ok {
		return old
	}
	return "arch_rethook_trampoline"
}
