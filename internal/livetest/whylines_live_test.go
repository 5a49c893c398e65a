// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A check is the line of the kernel's source that refuses a command, read in Debian's linux-source packages.
type check struct {
	command  string // split at spaces; without a space or slash, a case of "workload refuse"
	before   string // what the shell does first
	function string // the innermost one with a symbol
	newer    string // the same on 7.3, if it has another name
	file     string
	lines    [2]string // on 6.12 and 7.3; a-b if the condition has several, "" if there is none
}

// readReleases are the kernels that were read, in the order of lines.
var readReleases = []string{"6.12.117", "7.3.4"}

const (
	inlinedHere = "the inlined function that tests the same is named"
	byMemory    = "memory decides, in a function without probes"
	together    = "the compiler tests it together with the next condition, whose line debug info has"
	ledTo       = "a test that led to the one that was read is named"
)

var checks = []check{
	{"mlockall", "", "__do_sys_mlockall", "", "mm/mlock.c", [2]string{"752", "763"}},
	{"prctl", "", "__do_sys_prctl", "", "kernel/sys.c", [2]string{"2487", "2551"}},
	{"clone", "", "copy_process", "", "kernel/fork.c", [2]string{"2206", "2068"}},
	{"unshare", "", "ksys_unshare", "", "kernel/fork.c", [2]string{"3245", "3196"}},
	{"sched_setattr", "", "__x64_sys_sched_setattr", "", "kernel/sched/syscalls.c", [2]string{"1015", "967"}},
	{"sched_setscheduler", "", "__sched_setscheduler", "", "kernel/sched/syscalls.c", [2]string{"565-566", "532-533"}},
	{"timerfd_create", "", "__do_sys_timerfd_create", "", "fs/timerfd.c", [2]string{"421-425", "433-438"}},
	{"eventfd2", "", "do_eventfd", "", "fs/eventfd.c", [2]string{"390", "388"}},
	{"pipe2", "", "do_pipe2", "", "fs/pipe.c", [2]string{"972", "1070"}},
	{"msync", "", "__do_sys_msync", "", "mm/msync.c", [2]string{"42", "43"}},
	{"madvise", "", "do_madvise", "", "mm/madvise.c", [2]string{"1441", "1858"}},
	{"epoll_create1", "", "do_epoll_create", "", "fs/eventpoll.c", [2]string{"2407", "2502"}},
	{"inotify_init1", "", "do_inotify_init", "", "fs/notify/inotify/inotify_user.c", [2]string{"691", "691"}},
	{"fanotify_init", "", "__do_sys_fanotify_init", "", "fs/notify/fanotify/fanotify_user.c", [2]string{"1426", "1621"}},
	{"keyctl", "", "__do_sys_keyctl", "", "security/keys/keyctl.c", [2]string{"1890", "1890"}},
	{"socket", "", "__sock_create", "", "net/socket.c", [2]string{"1498", "1615"}},
	{"bind", "", "__inet_bind", "", "net/ipv4/af_inet.c", [2]string{"503", "510"}},
	{"bind-short", "", "inet_bind_sk", "", "net/ipv4/af_inet.c", [2]string{"451", "458"}},
	{"connect", "", "tcp_v4_connect", "", "net/ipv4/tcp_ipv4.c", [2]string{"233", "238"}},
	{"accept4", "", "inet_csk_accept", "", "net/ipv4/inet_connection_sock.c", [2]string{"663", "664"}},
	{"setsockopt", "", "sk_setsockopt", "", "net/core/sock.c", [2]string{"1189", "1213"}},
	{"perf_event_open", "", "__do_sys_perf_event_open", "", "kernel/events/core.c", [2]string{"12844", "13903"}},
	{"bpf-prog", "", "bpf_prog_load", "", "kernel/bpf/syscall.c", [2]string{"2698", "2995"}},
	{"bpf-map", "", "map_create", "", "kernel/bpf/syscall.c", [2]string{"1254", "1436"}},
	{"bpf-link", "", "__bpf_prog_get", "", "kernel/bpf/syscall.c", [2]string{"2425", "2690"}},
	{"io_uring_setup", "", "io_uring_setup", "io_prepare_config", "io_uring/io_uring.c", [2]string{"3609", "2984"}},
	{"clone3", "", "copy_clone_args_from_user", "", "kernel/fork.c", [2]string{"3008", "2963"}},
	{"quotactl", "", "__x64_sys_quotactl", "", "fs/quota/quota.c", [2]string{"929", "928"}},
	{"swapon", "", "__do_sys_swapon", "", "mm/swapfile.c", [2]string{"3386", "3629"}},
	{"mmap", "", "do_mmap", "", "mm/mmap.c", [2]string{"295", "351"}},
	{"mount-option", "", "shmem_parse_one", "", "mm/shmem.c", [2]string{"4332", "4573"}},
	{"mount-type", "", "path_mount", "", "fs/namespace.c", [2]string{"3565", "3940"}},
	{"setpriority", "", "__do_sys_setpriority", "", "kernel/sys.c", [2]string{"236", "268"}},
	{"pidfd_open", "", "__x64_sys_pidfd_open", "", "kernel/pid.c", [2]string{"631", "702"}},
	{"mprotect", "", "do_mprotect_pkey", "", "mm/mprotect.c", [2]string{"727", "889"}},
	{"ioctl", "", "__x64_sys_ioctl", "", "fs/ioctl.c", [2]string{"48", "48"}},
	{"fcntl", "", "f_dupfd", "", "fs/file.c", [2]string{"1409", "1501"}},
	{"renameat2", "", "do_renameat2", "filename_renameat2", "fs/namei.c", [2]string{"5132", "6258"}},
	{"mlock", "", "do_mlock", "", "mm/mlock.c", [2]string{"648", "654"}},
	{"openat", "", "generic_permission", "", "fs/namei.c", [2]string{"449", "559"}},
	{"cat /nope", "", "step_into", "step_into_slowpath", "fs/namei.c", [2]string{"1477", "1643"}},
	{"/tmp/damaged", `cp /bin/busybox /tmp/damaged; printf '\377\377' | dd of=/tmp/damaged bs=1 seek=18 conv=notrunc 2>/dev/null`, "load_elf_binary", "", "fs/binfmt_elf.c", [2]string{"849", "859"}},
	{"swapon /tmp/zeros", "dd if=/dev/zero of=/tmp/zeros bs=4096 count=10 2>/dev/null", "__do_sys_swapon", "", "mm/swapfile.c", [2]string{"3456", ""}},
	{"kill -TERM 99999", "", "kill_pid_info_type", "", "kernel/signal.c", [2]string{"1502", "1501"}},
	{"rmdir /tmp/full", "mkdir -p /tmp/full/a", "shmem_rmdir", "", "mm/shmem.c", [2]string{"3775", "3970"}},
	{"ln /tmp/one /tmp/two", "touch /tmp/one /tmp/two", "filename_create", "lookup_one_qstr_excl", "fs/namei.c", [2]string{"4099", "1822"}},
	{"ln /tmp/one /sys/one", "touch /tmp/one", "do_linkat", "filename_linkat", "fs/namei.c", [2]string{"4866", "5983"}},
	{"mv /tmp/full /tmp/full/b", "mkdir -p /tmp/full", "do_renameat2", "__start_renaming", "fs/namei.c", [2]string{"5215", "3894"}},
	{"umount /tmp/full", "mkdir -p /tmp/full", "path_umount", "", "fs/namespace.c", [2]string{"2017", "2084"}},
	{"insmod /tmp/short.ko", "echo a > /tmp/short.ko", "__do_sys_init_module", "", "kernel/module/main.c", [2]string{"2176", "2508"}},
	{"hostname " + strings.Repeat("a", 83), "", "__x64_sys_sethostname", "", "kernel/sys.c", [2]string{"1394", "1430"}},
	{"sysctl -w kernel.pid_max=1", "", "do_proc_dointvec_minmax_conv", "do_proc_int_conv_minmax", "kernel/sysctl.c", [2]string{"846", "560"}},
	{"ifconfig nosuch up", "", "dev_ioctl", "", "net/core/dev_ioctl.c", [2]string{"143", "145"}},
	{"route add default gw 1.2.3.4", "", "fib_check_nh_v4_gw", "", "include/net/ip_fib.h", [2]string{"397", "399"}},
	{"renice -n 5 -p 99999", "", "__do_sys_getpriority", "", "kernel/sys.c", [2]string{"316", "348"}},
	{"pivot_root /tmp /tmp", "", "__do_sys_pivot_root", "", "fs/namespace.c", [2]string{"4517", ""}},
	{"chroot /etc/passwd true", "", "path_lookupat", "", "fs/namei.c", [2]string{"2603", "2823"}},
	{"mkdir /proc/a", "", "proc_lookup_de", "", "fs/proc/generic.c", [2]string{"252", "253"}},
	{"rm -f /proc/version", "", "vfs_unlink", "", "fs/namei.c", [2]string{"4521", "5631"}},
	{"dd if=/tmp of=/dev/null", "", "generic_read_dir", "", "fs/libfs.c", [2]string{"225", "225"}},
	{"nsenter --net=/tmp/one true", "touch /tmp/one", "__do_sys_setns", "", "kernel/nsproxy.c", [2]string{"561", "584"}},
	{"ip link add foo type nosuch", "", "__rtnl_newlink", "rtnl_newlink", "net/core/rtnetlink.c", [2]string{"3852", "4102"}},
	{"workload no-qdisc -fail", "", "qdisc_create", "", "net/sched/sch_api.c", [2]string{"1311", "1287"}},
}

// misses says by command why another line is named than the one that was read, on 6.12 and 7.3.
var misses = map[string][2]string{
	"pidfd_open":                   {together, together},
	"swapon /tmp/zeros":            {byMemory, byMemory},
	"route add default gw 1.2.3.4": {ledTo, ledTo},
	"pivot_root /tmp /tmp":         {byMemory, byMemory},
	"mkdir /proc/a":                {inlinedHere, inlinedHere},
	"dd if=/tmp of=/dev/null":      {"it has no condition", "it has no condition"},
	"ip link add foo type nosuch":  {inlinedHere},
	"workload no-qdisc -fail":      {ledTo},
}

// decidedAt is how a page says where it was decided, and where that code was inlined.
var decidedAt = regexp.MustCompile(`^decided(?:: .*,)? at (\S+?):(\d+)\S*(?: \(in \S+, inlined at (\S+?):(\d+))?`)

// TestLiveDebugInfoWhyLines: why names the lines that were read in the kernel's source, and logs the table of docs/why.md.
func TestLiveDebugInfoWhyLines(t *testing.T) {
	requireDebugInfo(t)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	kernel := slices.IndexFunc(readReleases, func(r string) bool { return isRelease(string(release), r) })
	if kernel < 0 {
		t.Skipf("nobody has read the source of %s for this, only of %q", strings.TrimSpace(string(release)), readReleases)
	}
	right, rows := 0, 0
	var took []time.Duration
	for i := range checks {
		c := &checks[i]
		if c.lines[kernel] == "" {
			continue
		}
		function, named, seconds := c.explained(t)
		took = append(took, seconds)
		rows++
		is := slices.ContainsFunc(named, func(place string) bool { return c.has(place, kernel) })
		if is {
			right++
		}
		t.Logf("| `%s` | `%s` | %s:%s | %s | %.1f s |", c.command, function, c.file, c.lines[kernel], strings.Join(named, ", inlined at "), seconds.Seconds())
		want := c.function
		if kernel == 1 && c.newer != "" {
			want = c.newer
		}
		if runtime.GOARCH == "arm64" {
			want = strings.Replace(want, "__x64_", "__arm64_", 1)
		}
		if function != want {
			t.Errorf("%s: refused in %s, not %s", c.command, function, want)
		}
		if is && misses[c.command][kernel] != "" {
			t.Errorf("%s: decided at %q, the line that was read: drop the reason %q", c.command, named, misses[c.command][kernel])
		}
		if !is && misses[c.command][kernel] == "" && runtime.GOARCH == "amd64" { // on arm64 tables of jumps hide some
			t.Errorf("%s: decided at %q, not %s:%s", c.command, named, c.file, c.lines[kernel])
		}
	}
	slices.Sort(took)
	t.Logf("%d of %d lines; from Enter to the page %v, %v, %v (least, median, most)", right, rows, took[0], took[len(took)/2], took[len(took)-1])
}

// isRelease reports whether a kernel, as 7.3.4-1-amd64, is of a release, as 7.3.4.
func isRelease(kernel, release string) bool {
	rest, ok := strings.CutPrefix(kernel, release)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// TestReadLines: the table of TestLiveDebugInfoWhyLines is of the kernels that were read, and each line that is missed has its row.
func TestReadLines(t *testing.T) {
	for kernel, want := range map[string]string{"6.12.117": "6.12.117", "7.3.4-1-amd64\n": "7.3.4", "7.3.4+deb14-arm64": "7.3.4", "7.3.40-amd64": "", "7.3.3": "", "7.3": ""} {
		for _, release := range readReleases {
			if got := isRelease(kernel, release); got != (release == want) {
				t.Errorf("%s is of %s: %t", kernel, release, got)
			}
		}
	}
	for command := range misses {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.command == command }) {
			t.Errorf("misses has %q, and checks has not", command)
		}
	}
}

// explained runs the command under why. It returns the function that refused it, the places where that was
// decided, the innermost one first, and how long it took.
func (c *check) explained(t *testing.T) (function string, named []string, took time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page")
	args := []string{"why", "--format", "json", "-o", file}
	if c.before != "" {
		if out, _, status := printedOnce(t, "sh", "-c", c.before); status != 0 {
			t.Fatalf("%s: status %d, %s", c.before, status, out)
		}
	}
	if strings.ContainsAny(c.command, " /") {
		args = append(append(args, "--"), strings.Fields(c.command)...)
	} else {
		call, _, _ := strings.Cut(c.command, "-")
		args = append(args, "--syscall", call, "--", "workload", "refuse", "-fail", c.command)
	}
	begin := time.Now()
	out, errs, status := printedOnce(t, "ksnoop", args...)
	took = time.Since(begin)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s: status %d, %v\n%s%s", c.command, status, err, out, errs)
		return "", nil, took
	}
	var page struct {
		Refused struct{ Function, Inside string }
		Call    struct{ Path []string } `json:"function_call"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatalf("%s: %v\n%s", c.command, err, text)
	}
	for _, line := range page.Call.Path {
		if m := decidedAt.FindStringSubmatch(line); m != nil {
			named = append(named, m[1]+":"+m[2])
			if m[3] != "" {
				named = append(named, m[3]+":"+m[4])
			}
		}
	}
	return cmp.Or(page.Refused.Inside, page.Refused.Function), named, took
}

// has reports whether a place, as fs/a.c:12, is of the lines that were read.
func (c *check) has(place string, kernel int) bool {
	file, line, _ := strings.Cut(place, ":")
	n, err := strconv.Atoi(line)
	first, last, several := strings.Cut(c.lines[kernel], "-")
	if !several {
		last = first
	}
	var from, to int
	if _, scanErr := fmt.Sscan(first+" "+last, &from, &to); scanErr != nil || err != nil {
		return false
	}
	return file == c.file && from <= n && n <= to
}
