// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// requireDebugInfo skips a test where there is no debug info of the kernel, and
// returns the file.
func requireDebugInfo(t *testing.T) string {
	t.Helper()
	guest.Require(t)
	files, err := filepath.Glob("/usr/lib/debug/boot/vmlinux-*")
	if err != nil || len(files) != 1 {
		t.Skip("needs the kernel's debug info: make test-debuginfo")
	}
	return files[0]
}

// failingMapCreation is how bpf(BPF_MAP_CREATE) gets to the check that refuses
// an array without elements. The lines are those of the source of one version,
// in which they hold: of SYSCALL_DEFINE3 the body and the macro itself, of
// do_syscall_64 the condition that calls do_syscall_x64.
var failingMapCreation = map[string]struct{ release, stack string }{
	"6.12": {"6.12.117+deb12-cloud-amd64", `
map_create                      (kernel/bpf/syscall.c:1262:9)
__sys_bpf                       (kernel/bpf/syscall.c:5688:9)
. __do_sys_bpf                  (kernel/bpf/syscall.c:5813:9)
. __se_sys_bpf                  (kernel/bpf/syscall.c:5811:1)
__x64_sys_bpf                   (kernel/bpf/syscall.c:5811:1)
. do_syscall_x64                (arch/x86/entry/common.c:47:14)
do_syscall_64                   (arch/x86/entry/common.c:78:7)
entry_SYSCALL_64_after_hwframe  (arch/x86/entry/entry_64.S:121)
`},
	"6.1": {"6.1.0-56-cloud-amd64", `
. find_and_alloc_map            (kernel/bpf/syscall.c:127:9)
map_create                      (kernel/bpf/syscall.c:1149:8)
__sys_bpf                       (kernel/bpf/syscall.c:5076:9)
. __do_sys_bpf                  (kernel/bpf/syscall.c:5198:9)
. __se_sys_bpf                  (kernel/bpf/syscall.c:5196:1)
__x64_sys_bpf                   (kernel/bpf/syscall.c:5196:1)
. do_syscall_x64                (arch/x86/entry/common.c:46:14)
do_syscall_64                   (arch/x86/entry/common.c:76:7)
entry_SYSCALL_64_after_hwframe  (arch/x86/entry/entry_64.S:121)
`},
}

// stackRows returns the functions and places of a stack, lines only if want has
// those of the kernel that runs.
func stackRows(t *testing.T, text, release string) (rows []string) {
	t.Helper()
	running, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	result := regexp.MustCompile(`^\s*\d+us \[\S+\]`)
	columns := regexp.MustCompile(`(?:\+0x[0-9a-f]+)? +\(`)
	lines := regexp.MustCompile(`:\d+(:\d+)?\)`)
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		row := columns.ReplaceAllString(strings.TrimSpace(result.ReplaceAllString(line, "")), " (")
		if strings.TrimSpace(string(running)) != release {
			row = lines.ReplaceAllString(row, ")")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestLiveDebugInfoStack(t *testing.T) {
	requireDebugInfo(t)
	want, ok := failingMapCreation[guest.Kernel()]
	if !ok {
		t.Skip("nobody has read this kernel's source")
	}
	methods(t, func(t *testing.T, attach string) {
		out := traced(t, append([]string{"trace", attach, "--stack", "array_map_alloc_check(return < 0)"}, quiet("map-array-zero")...)...)
		_, stack, _ := strings.Cut(out, "stack:\n")
		stack, _, _ = strings.Cut(stack, "\n\n")
		if diff := cmp.Diff(stackRows(t, want.stack, want.release), stackRows(t, stack, want.release)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLiveDebugInfoSession has the same call in the stack view of a session,
// which begins with the outermost function.
func TestLiveDebugInfoSession(t *testing.T) {
	requireDebugInfo(t)
	want, ok := failingMapCreation[guest.Kernel()]
	if !ok {
		t.Skip("nobody has read this kernel's source")
	}
	out, stderr, status := ksnoop(t, append([]string{"-e", "*sys_bpf", "-a", ":kernel/bpf/arraymap.c", "-a", "map_create"}, quiet("map-array-zero")...)...)
	_, stack, _ := strings.Cut(out, "):\n\n")
	got := stackRows(t, stack, want.release)
	rows := stackRows(t, want.stack, want.release)
	slices.Reverse(rows)
	if status != 0 || len(got) != len(rows)+1 || !strings.HasPrefix(got[len(got)-1], "!") || !strings.HasSuffix(got[len(got)-1], " array_map_alloc_check") {
		t.Fatalf("status %d:\n%s%s", status, out, stderr)
	}
	if diff := cmp.Diff(rows, got[:len(rows)]); diff != "" {
		t.Error(diff)
	}
}

// TestLiveDebugInfoSym compares addresses of the running kernel with those of
// the file, which are compared with other tools elsewhere.
func TestLiveDebugInfoSym(t *testing.T) {
	file := requireDebugInfo(t)
	view := kernel.Open(os.DirFS("/"))
	begin, ok1 := view.SymbolNamed("_stext", "")
	end, ok2 := view.SymbolNamed("_etext", "")
	read, ok3 := view.SymbolNamed("vfs_read", "")
	if !ok1 || !ok2 || !ok3 {
		t.Fatal("no symbols")
	}
	inFile, _, _ := strings.Cut(traced(t, "sym", "-a", "-e", file, "vfs_read"), "\n")
	linked, err := strconv.ParseUint(inFile, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	slide := read.Addr - linked
	random := rand.New(rand.NewPCG(1, 2))
	live, still := []string{"sym"}, []string{"sym", "-e", file}
	for range 200 {
		addr := begin.Addr + random.Uint64N(end.Addr-begin.Addr)
		live = append(live, fmt.Sprintf("%x", addr))
		still = append(still, fmt.Sprintf("%x", addr-slide))
	}
	// Symbols may have several names; places of calls have not.
	places := func(out string) (places []string) {
		for line := range strings.Lines(out) {
			if strings.Contains(line, ":") {
				places = append(places, line)
			}
		}
		return places
	}
	got, want := places(traced(t, live...)), places(traced(t, still...))
	// Between functions there is nothing.
	if unknown := strings.Count(strings.Join(want, ""), "??:?"); len(want) < 200 || unknown > 70 {
		t.Fatalf("of %d places the file does not know %d", len(want), unknown)
	}
	// Of the kernel paths are those in the source tree.
	same := func(whole, inTree string) bool { return strings.HasSuffix(path.Clean(whole), inTree) }
	if !slices.EqualFunc(want, got, same) {
		t.Error(cmp.Diff(want, got))
	}
}

// TestLiveDebugInfoInlined traces a function of whose two callers one has it
// inlined.
func TestLiveDebugInfoInlined(t *testing.T) {
	requireDebugInfo(t)
	_, stderr, status := ksnoop(t, append([]string{"trace", "ip_send_skb"}, quiet("read -size 33 -count 1")...)...)
	const want = "ksnoop: ip_send_skb is inlined into ip_push_pending_frames: calls from there are not seen; --inlined traces them\n"
	if status != 0 || stderr != want {
		t.Errorf("status %d, %q on stderr, want %q", status, stderr, want)
	}
	out := traced(t, "info", "-v", "ip_send_skb")
	if !strings.Contains(out, "defined at net/ipv4/ip_output.c:") || !strings.Contains(out, "inlined into ip_push_pending_frames+0x") {
		t.Errorf("info -v: %s", out)
	}
}

// TestLiveDebugInfoSources selects functions by file: of several functions of
// one name only the one that the file defines, and what included files define.
func TestLiveDebugInfoSources(t *testing.T) {
	requireDebugInfo(t)
	out, stderr, status := ksnoop(t, append([]string{"trace", ":kernel/bpf/arraymap.c(return < 0)", "-d", ":kernel/bpf/s*.c"}, quiet("map-array-zero")...)...)
	if n := records(out, "workload", "array_map_alloc_check"); status != 0 || n != 1 || strings.Count(out, "workload") != 1 {
		t.Errorf("status %d, %d records:\n%s%s", status, n, out, stderr)
	}
	// Programs of ksnoop's own use such functions: the kernel may leave some calls out.
	inlined := false
	for line := range strings.Lines(stderr) {
		of := strings.Contains(line, " inlined into ") || strings.Contains(line, " are inlined somewhere")
		if inlined = inlined || of; !of && !strings.Contains(line, " not seen because the kernel ") {
			t.Errorf("stderr: %q", stderr)
		}
	}
	if !inlined {
		t.Errorf("no notice: %q", stderr)
	}
	for glob, want := range map[string]string{
		":kernel/sched/rt.c":    "enqueue_task_rt", // which build_policy.c includes
		":kernel/bpf/hashtab.c": "htab_map_alloc_check",
	} {
		out := traced(t, "info", glob)
		if !strings.Contains(out, " "+want+"(") || strings.Contains(out, "array_map_alloc") {
			t.Errorf("%s:\n%s", glob, out)
		}
	}
}

// inlinedCalls are functions that the compiler has inlined where the workload
// calls them, and what it passes.
var inlinedCalls = []struct {
	kernel        string // "" for any
	spec          string
	place, values string
	command       string
	count         int
}{
	// In the frame of map_create, and in a register.
	{"", "bpf_get_file_flag(flags)", "bpf_get_file_flag [inlined into map_create+0x", "flags = (int)1073741824", "workload map-array-flags -count 3", 3},
	{"", "bpf_get_file_flag(flags > 0x40000000)", "bpf_get_file_flag [", "", "workload map-array-flags -count 3", 0},
	{"", "bpf_get_file_flag(flags == 0x40000000)", "bpf_get_file_flag [", "flags = (int)1073741824", "workload map-array-flags -count 2", 2},
	// This one exists nowhere else, and gets as far as an array's check.
	{"6.1", "find_and_alloc_map((enum bpf_map_type)attr->map_type, attr->max_entries, attr->map_flags)", "find_and_alloc_map [inlined into map_create+0x",
		"(enum bpf_map_type)attr->map_type = (enum bpf_map_type)BPF_MAP_TYPE_ARRAY,\n\n        attr->max_entries = (__u32)16,\n\n        attr->map_flags = (__u32)1073741824", "workload map-array-flags -count 2", 2},
	{"6.1", "find_and_alloc_map(attr->map_type == 32767)", "find_and_alloc_map [inlined into map_create+0x", "attr->map_type = (__u32)32767", "workload map-type", 1},
	// Requests and replies, of 56 bytes of data, 8 of ICMP and 20 of IP.
	{"", "ip_send_skb(skb->len)", "ip_send_skb [inlined into ip_push_pending_frames+0x", "skb->len = (unsigned int)84", "ping -q -c 2 -s 56 127.0.0.1", 4},
}

// TestLiveDebugInfoTraceInlined traces calls that were inlined, of which the
// workload knows how many there are and with which values.
func TestLiveDebugInfoTraceInlined(t *testing.T) {
	requireDebugInfo(t)
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range inlinedCalls {
		if c.kernel != "" && c.kernel != guest.Kernel() {
			continue
		}
		out, stderr, status := ksnoop(t, append([]string{"trace", "--inlined", c.spec, "--"}, strings.Fields(c.command)...)...)
		blocks := strings.Split(out, ");\n")
		found := 0
		for _, block := range blocks {
			if strings.Contains(block, " "+c.place) && strings.Contains(block, "(\n        "+c.values+"\n\n") {
				found++
			}
		}
		if status != 0 || stderr != "" || found != c.count || strings.Count(out, c.place) != c.count {
			t.Errorf("%s: status %d, %d of %d calls:\n%s%s", c.spec, status, found, c.count, out, stderr)
		}
	}
}

// TestLiveDebugInfoTraceInlinedStack: the stack begins with the function that the
// other was inlined into, and the recording of it replays.
func TestLiveDebugInfoTraceInlinedStack(t *testing.T) {
	requireDebugInfo(t)
	file := filepath.Join(t.TempDir(), "recording")
	args := []string{"trace", "--inlined", "--stack", "--record", file, "--force", "--print", "bpf_get_file_flag(flags)"}
	live := traced(t, append(args, quiet("map-array-flags")...)...)
	for name, out := range map[string]string{"live": live, "replayed": traced(t, "replay", file)} {
		_, stack, _ := strings.Cut(out, "stack:\n")
		first, rest, _ := strings.Cut(stack, "\n")
		if !strings.HasPrefix(strings.TrimSpace(first), "map_create+0x") || !strings.Contains(rest, "__sys_bpf+0x") ||
			name == "live" && !strings.Contains(first, "(kernel/bpf/syscall.c:") || !strings.Contains(out, "flags = (int)1073741824") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// TestLiveDebugInfoTraceInlinedFaults asks for what is not to be had.
func TestLiveDebugInfoTraceInlinedFaults(t *testing.T) {
	requireDebugInfo(t)
	for spec, want := range map[string]string{
		"fdput(fd)":                "column 7: fd is optimised out of fdput [inlined into ",
		"bpf_get_file_flag(flagz)": `did you mean "flags"?`,
		"list_empty":               " places, and no more than 256 can be traced",
		"get_order(return > 5)":    "of a call that was inlined, only the beginning can be seen",
	} {
		out, stderr, status := ksnoop(t, append([]string{"trace", "--inlined", spec}, quiet("map-ok")...)...)
		if status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, want %q:\n%s%s", spec, status, want, out, stderr)
		}
	}
	// Where there is something left to be traced, the rest is named.
	out, stderr, status := ksnoop(t, append([]string{"trace", "--inlined", "bpf_get_file_flag(flags, return)"}, quiet("map-array-flags")...)...)
	const want = "ksnoop: bpf_get_file_flag [inlined into map_create+0x"
	if status != 0 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "]: not traced: column 26: it is passed, and does not return; ") {
		t.Errorf("status %d:\n%s%s", status, out, stderr)
	}
}

// TestLiveDebugInfoBranches replays the branches of array_map_alloc_check when
// there are to be no elements, as the disassembly of one build has them: the
// first of the conditions that span lines 58 to 61 holds, and line 63 returns.
func TestLiveDebugInfoBranches(t *testing.T) {
	requireDebugInfo(t)
	const release = "6.12.117+deb12-cloud-amd64"
	if running, err := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || strings.TrimSpace(string(running)) != release {
		t.Skipf("nobody has read the code of %s", running)
	}
	view := loadBranches(t, "")
	const check = "array_map_alloc_check"
	replayBranches(t, view,
		check+"+0xa3 "+landingPad(view)+" 0", // return -EINVAL
		check+"+0x26 "+check+"+0x9e 0",       // max_entries is 0
		check+"+0xb7 "+check+"+0x21 0",       // no node was asked for
		check+"+0x18 "+check+"+0xb2 0",
		"map_create+0x10 "+check+" 0")
	out := traced(t, append([]string{"trace", "--attach=kprobe", "--lbr=any", check + "(return < 0)"}, quiet("map-array-zero")...)...)
	// Places as llvm-symbolizer names them.
	want := `branches:
[#04] map_create+0x10 (kernel/bpf/syscall.c:1210:1) -> array_map_alloc_check+0x0 (kernel/bpf/arraymap.c:53:1)
[#03] array_map_alloc_check+0x18 (kernel/bpf/arraymap.c:55:18) -> array_map_alloc_check+0xb2 (kernel/bpf/arraymap.c:55:18)
. bpf_map_attr_numa_node (include/linux/bpf.h:2603:19) . bpf_map_attr_numa_node (include/linux/bpf.h:2603:19)
[#02] array_map_alloc_check+0xb7 (kernel/bpf/arraymap.c:55:18) -> array_map_alloc_check+0x21 (kernel/bpf/arraymap.c:58:5)
. bpf_map_attr_numa_node (include/linux/bpf.h:2603:19)
[#01] array_map_alloc_check+0x26 (kernel/bpf/arraymap.c:58:5) -> array_map_alloc_check+0x9e (kernel/bpf/arraymap.c:63:10)
[#00] array_map_alloc_check+0xa3 (kernel/bpf/arraymap.c:63:10) -> ` + landingPad(view) + `+0x0
in array_map_alloc_check, kernel/bpf/arraymap.c: passed 53-58, 63; not passed 59-61`
	got := regexp.MustCompile(`\n +`).ReplaceAllString(branchRows(out), "\n")
	if diff := cmp.Diff(want, regexp.MustCompile(` {2,}`).ReplaceAllString(got, " ")); diff != "" {
		t.Errorf("%s\n%s", diff, out)
	}
}

// TestLiveDebugInfoDecided: the condition that refuses an array with keys of 3 bytes has the words of the
// source, and a recording prints the same without debug info.
func TestLiveDebugInfoDecided(t *testing.T) {
	requireDebugInfo(t)
	file := recordingFile(t)
	live, errs, status := ksnoop(t, "trace", "--record", file, "--print", "array_map_alloc_check(path())", "--", "workload", "map-array-key")
	again, replayErrs, replayStatus := replayed(t, file)
	for _, out := range []string{live, again} {
		if !regexp.MustCompile(`decided: attr->key_size \(3\) != 4, at kernel/bpf/arraymap\.c:\d+:\d+\n`).MatchString(out) {
			t.Errorf("status %d, %d: %s%s\n%s", status, replayStatus, errs, replayErrs, out)
		}
	}
}
