// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// toolPackages have programs that were written without a thought of ksnoop, and what these are linked with. Those of
// bpftrace take 200 MB.
var toolPackages = []string{"libbpf-tools", "xdp-tools", "libxdp1", "libbpf1", "libelf1t64", "zlib1g", "libzstd1", "libc6",
	"bpftool", "libcap2", "iproute2", "libmnl0", "libselinux1", "libpcre2-8-0",
	"bpftrace", "libbpfcc", "libclang1-19", "libllvm19", "libstdc++6", "libgcc-s1", "libsframe1", "libffi8", "libedit2", "libbsd0", "libmd0",
	"libtinfo6", "libz3-4", "libxml2", "liblzma5"}

// A programSort says what a program needs to be traced in a test.
type programSort string

const (
	plain   programSort = "plain"
	tracing programSort = "tracing" // by BTF, which Linux lets be traced from 6.8 on
	timed   programSort = "timed"   // called by a timer, whatever task it interrupts
)

// A foreignProgram is a program of another tool, and how it is traced.
type foreignProgram struct {
	tool    string // its command line
	loads   string // a program that it loads
	specs   []string
	command string
	want    []string // in what ksnoop and the command print; "N times TEXT": so often
	sort    programSort
}

// foreignPrograms are BPF programs of those tools. What they are called with is what command does, as the script says
// it, or as man pages say it: never what ksnoop has printed.
var foreignPrograms = []foreignProgram{
	{"opensnoop-libbpf", "tracepoint__syscalls__sys_enter_openat",
		[]string{`bpf:tracepoint__syscalls__sys_enter_openat(ustr((char *)ctx->args[1]) == "/no/such/file", (int)ctx->args[0] == -100, return)`,
			"bpf:tracepoint__syscalls__sys_exit_openat(ctx->ret == -2, return)"},
		"workload open-missing -file /no/such/file", []string{`"/no/such/file"`, "ctx->ret = (long int)-2", "return = (int)0"}, plain},
	{"execsnoop-libbpf", "tracepoint__syscalls__sys_enter_execve",
		[]string{`bpf:tracepoint__syscalls__sys_enter_execve(ustr((char *)ctx->args[0]) == "/bin/true", return)`},
		"sh -c '/bin/true; :'", []string{`"/bin/true"`, "return = (int)0"}, plain},
	{"tcpconnect-libbpf", "tcp_v4_connect",
		[]string{"bpf:tcp_v4_connect(((struct sockaddr_in *)ctx->si)->sin_family == AF_INET, ntohs(((struct sockaddr_in *)ctx->si)->sin_port), ((struct sock *)ctx->di)->sk_protocol, return)"},
		"sh -c 'nc 127.0.0.1 7777; :'", []string{"7777", "sk_protocol = (u16)6"}, plain},
	{"tcpstates-libbpf", "handle_set_state",
		[]string{"bpf:handle_set_state(ctx->newstate == TCP_SYN_SENT, ctx->oldstate == TCP_CLOSE, ctx->dport, return)"},
		"sh -c 'nc 127.0.0.1 7778; :'", []string{"ctx->dport = (__u16)7778"}, plain},
	{"filetop-libbpf", "vfs_read_entry", // the compiler does not pass ctx to probe_entry(ctx, file, count, op)
		[]string{"bpf:probe_entry[vfs_read_entry]($arg2 == 33, (int)$arg3 == 0, ((struct file *)$arg1)->f_path.dentry->d_name.name)", "bpf:vfs_read_entry(ctx->dx == 33, return)"},
		"workload read -size 33 -file /dev/zero", []string{`"zero"`, "probe_entry[vfs_read_entry](", "ctx->dx = (long unsigned int)33"}, plain},
	{"mountsnoop-libbpf", "mount_exit",
		[]string{`bpf:mount_entry(ustr((char *)ctx->args[1]) == "/no/such/folder", return)`, "bpf:probe_exit[mount_exit](ret == -2)"},
		"sh -c 'mount -t tmpfs none /no/such/folder; :'", []string{`"/no/such/folder"`, "ret = (int)-2"}, plain},
	{"killsnoop-libbpf", "kill_entry",
		[]string{"bpf:kill_entry(ctx->args[0] == 999999, ctx->args[1] == 10, return)", "bpf:kill_exit(ctx->ret == -3, return)"},
		"sh -c 'kill -USR1 999999; :'", []string{"ctx->args[1] = (long unsigned int)10", "ctx->ret = (long int)-3"}, plain},
	{"bindsnoop-libbpf", "ipv6_bind_exit",
		[]string{"bpf:ipv6_bind_entry(ntohs(((struct sockaddr_in6 *)ctx->si)->sin6_port))", "bpf:ipv6_bind_exit((int)ctx->ax == 0)", "bpf:probe_exit[ipv6_bind_exit](ver)"},
		"sh -c 'timeout 1 nc -l -p 7779; :'", []string{"7779", "ver = (short)6", "(int)ctx->ax = (int)0"}, plain},
	{"runqlat-libbpf", "sched_wakeup",
		[]string{`bpf:sched_wakeup(((struct task_struct *)ctx[0])->comm == "workload", return)`},
		"workload pipe-wait -for 100ms", []string{`"workload"`, "return = (int)0"}, tracing},
	{"profile-libbpf -F 49 60", "do_perf_event", // 1 s / 49
		[]string{"bpf:do_perf_event(ctx->data->period == 20408163, return)"},
		"timeout 1 sh -c 'while :; do :; done'; :", []string{"ctx->data->period = (u64)20408163"}, plain},
	{"exitsnoop-libbpf", "sched_process_exit",
		[]string{`bpf:sched_process_exit($comm == "true", return)`}, "sh -c '/bin/true; :'", []string{`$comm = "true"`, "return = (int)0"}, plain},
	{"vfsstat-libbpf", "fentry_vfs_read",
		[]string{"bpf:fentry_vfs_read(ctx[2] == 33, return)"}, "workload read -size 33", []string{"ctx[2] = (unsigned long long)33", "return = (int)0"}, tracing},
	{"solisten-libbpf", "inet_listen_fexit", // busybox's nc listens with a backlog of 1
		[]string{"bpf:inet_listen_fexit((int)ctx[1], (int)ctx[2] == 0, return)", "bpf:fill_event(sock->type)"},
		"sh -c 'timeout 1 nc -l -p 7780; :'", []string{"(int)ctx[1] = (int)1", "sock->type = (short int)1"}, tracing},
	// XDP, in the place of a dispatcher, which is refused; Ethernet, IP and ICMP have 42 bytes.
	{"xdp-loader load -m skb lo /lib/tools/bpf/xdpfilt_alw_all.o", "xdpfilt_alw_all",
		[]string{"bpf:xdpfilt_alw_all((u64)ctx->data_end - (u64)ctx->data == 119, return == XDP_PASS)"},
		"sh -c 'ping -q -c 1 -s 77 127.0.0.1; ksnoop trace bpf:xdp_dispatcher 2>&1; :'",
		[]string{"= (long unsigned int)119", "return = (int)2", "is called in its place (freplace): 'bpf:*["}, plain},
	// XDP with subprograms. -force puts it in the place of the one before. bpftool says what it has tallied. lo also has the replies.
	{"/usr/sbin/ip -force link set dev lo xdpgeneric obj /lib/tools/foreign/tally.bpf.o sec xdp", "xdp_tally",
		[]string{"bpf:xdp_tally((u64)ctx->data_end - (u64)ctx->data == 119, return == XDP_PASS)", "bpf:payload_of(ip->protocol == IPPROTO_ICMP, ntohs(ip->tot_len), header, return == 85)",
			"bpf:icmp_type[xdp_tally](offset == 34, return)", "bpf:tally_packet(type, bytes, return == 0)"},
		"sh -c 'workload ping -count 5 -size 77; bpftool map lookup name tallies key 8 0 0 0'",
		[]string{"10 times = (long unsigned int)119", "10 times ntohs(ip->tot_len) = (short unsigned int)105", "10 times header = (__u32)20", "5 times return = (int)8",
			"5 times type = (__u32)8", "5 times type = (__u32)0", "10 times bytes = (__u32)85", `"packets": 5,`, `"bytes": 425`}, plain},
	// The same in the driver of a pair of devices, of which the other one is in a namespace and answers. ip says that it is there.
	{"sh -c 'mkdir -p /var/run; ip=/usr/sbin/ip; $ip netns add far; $ip link add near type veth peer name away netns far; $ip addr add 10.9.0.1/24 dev near; $ip link set near up; " +
		"$ip -n far addr add 10.9.0.2/24 dev away; $ip -n far link set away up; $ip link set dev near xdpdrv obj /lib/tools/foreign/tally.bpf.o sec xdp.frags'", "xdp_native",
		[]string{"bpf:xdp_native((u64)ctx->data_end - (u64)ctx->data == 119, return == XDP_PASS)", "bpf:payload_of[xdp_native](ip->protocol == IPPROTO_ICMP, ntohs(ip->tot_len), header, return == 85)",
			"bpf:icmp_type[xdp_native](offset == 34, return == 0)", "bpf:tally_packet[xdp_native](type, bytes, return == 0)"},
		"sh -c 'ping -q -c 3 -s 77 10.9.0.2; /usr/sbin/ip link show dev near'",
		[]string{"3 times = (long unsigned int)119", "3 times ntohs(ip->tot_len) = (short unsigned int)105", "3 times header = (__u32)20", "3 times offset = (__u32)34",
			"3 times type = (__u32)0", "3 times bytes = (__u32)85", "mtu 1500 xdp qdisc"}, timed},
	// struct_ops. A connection begins with 10 packets, and slow start adds one for each that has arrived, unless it is
	// idle; a loss halves it. The command says the threshold and the bytes as the kernel tells them, with one for the SYN.
	{"bpftool struct_ops register /lib/tools/foreign/reno.bpf.o", "reno_avoid",
		[]string{"bpf:reno_init(((struct sock *)ctx[0])->__sk_common.skc_family == AF_INET, ((struct tcp_sock *)ctx[0])->snd_cwnd)",
			"bpf:reno_avoid((u32)ctx[1] == ((struct tcp_sock *)ctx[0])->snd_una, (u32)ctx[2] == 1, ((struct tcp_sock *)ctx[0])->bytes_acked)",
			"bpf:reno_grow(tp->snd_cwnd, tp->snd_ssthresh, acked == 1)", "bpf:reno_ssthresh(((struct tcp_sock *)ctx[0])->snd_cwnd, return)",
			"bpf:reno_half[reno_ssthresh](window, return)", "bpf:reno_state((int)ctx[1] == TCP_CA_Loss)"},
		"sh -c 'sysctl -q -w net.ipv4.tcp_slow_start_after_idle=0; workload tcp-loss -control foreign_reno -count 20 -size 100'",
		[]string{"acked=2101 threshold=15", "1 times bpf:reno_init(", "snd_cwnd = (u32)10", "bytes_acked = (u64)101", "bytes_acked = (u64)2001", "bytes_acked = (u64)2101",
			"tp->snd_cwnd = (u32)29", "20 times tp->snd_ssthresh = (u32)1000", "snd_cwnd = (u32)30", "1 times window = (__u32)30", "2 times return = (__u32)15", "bpf:reno_state("}, timed},
	// bpftrace describes contexts as int8 *. The words of a tracepoint are as its format says.
	{"bpftrace -e 'kprobe:vfs_read /arg2 == 33/ { @reads = count(); } tracepoint:syscalls:sys_enter_kill { @kills = count(); }'", "tracepoint_syscalls_sys_enter_kill_2",
		[]string{"bpf:kprobe_vfs_read_1(((struct pt_regs *)ctx)->dx == 33, return)", "bpf:tracepoint_syscalls_sys_enter_kill_2(((u64 *)ctx)[2] == 999999, ((u64 *)ctx)[3])"},
		"sh -c 'workload read -size 33 -count 7; kill -USR1 999999; :'", []string{"7 times ctx)->dx = (long unsigned int)33", "1 times ((u64 *)ctx)[3] = (u64)10"}, plain},
	{"bpftrace -e 'fexit:vfs_read /args.count == 33/ { @ = count(); }'", "fexit_vmlinux_vfs_read_1",
		[]string{"bpf:fexit_vmlinux_vfs_read_1(((u64 *)ctx)[2] == 33, ((long *)ctx)[4])"}, "workload read -size 33 -count 7", []string{"7 times ((long *)ctx)[4] = (long int)33"}, tracing},
}

// registersOf are arm64's names for the registers of arguments and the result.
var registersOf = strings.NewReplacer("ctx->dx = (long unsigned int)", "ctx->regs[2] = (u64)",
	"ctx)->dx = (long unsigned int)", "ctx)->regs[2] = (u64)", "ctx)->dx", "ctx)->regs[2]",
	"ctx->di", "ctx->regs[0]", "ctx->si", "ctx->regs[1]", "ctx->dx", "ctx->regs[2]", "ctx->ax", "ctx->regs[0]")

// toolScript runs ksnoop while a tool is at work. A tool that loads programs and ends has left them where they are.
const toolScript = `
export PATH=$PATH:/usr/sbin LD_LIBRARY_PATH=/lib/tools
ip link set lo up
eval "exec $TOOL" >/tmp/tool.out 2>&1 </dev/null &
tool=$!
n=0
until ksnoop info "bpf:$LOADS" >/dev/null 2>&1; do
	n=$((n+1)); [ $n -lt 300 ] || { cat /tmp/tool.out; ksnoop info "bpf:$LOADS"; exit 99; }
	sleep 0.2
done
if [ $SORT = timed ]; then # calls of all tasks
	: >/tmp/trace.out # else grep may find what the run before wrote
	ksnoop trace --join "$@" >/tmp/trace.out &
	until grep -q TIMESTAMP /tmp/trace.out; do kill -0 $! || break; sleep 0.2; done
	sh -c "$WORK"; kill -INT $!; wait $!
	status=$?
	cat /tmp/trace.out
else
	ksnoop trace --join "$@" -- sh -c "$WORK"
	status=$?
fi
kill $tool 2>/dev/null; wait
exit $status`

// TestForeignPrograms traces the BPF programs of other tools, while these are at work.
func TestForeignPrograms(t *testing.T) {
	if os.Getenv("KSNOOP_TOOLS") == "" {
		t.Skip("KSNOOP_TOOLS is not set: make test-all fetches the tools")
	}
	forEachKernel(t, func(t *testing.T, k Kernel) {
		files, err := Programs(t.Context(), k.Arch)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Host: buildForeign(t), Guest: "/lib/tools/foreign"})
		m := boot(t, Guest{Kernel: k, Memory: 4000, Modules: []string{"veth"}, Files: append(files, toolFiles(t, k.Arch)...)})
		for _, c := range foreignPrograms {
			t.Run(c.tool, func(t *testing.T) { traceForeign(t, m, k, &c) })
		}
	})
}

// traceForeign traces one of foreignPrograms.
func traceForeign(t *testing.T, m *Machine, k Kernel, c *foreignProgram) {
	t.Helper()
	specs, want := c.specs, c.want
	if k.Arch == "arm64" {
		specs = strings.Split(registersOf.Replace(strings.Join(specs, "\n")), "\n")
		want = strings.Split(registersOf.Replace(strings.Join(want, "\n")), "\n")
	}
	var out, errs bytes.Buffer
	status, err := m.Run(t.Context(), Command{Args: append(sh(toolScript), append([]string{"sh"}, specs...)...),
		Env: []string{"TOOL=" + c.tool, "LOADS=" + c.loads, "WORK=" + c.command, "SORT=" + string(c.sort)}, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	if c.sort == tracing && strings.HasPrefix(k.Release, "6.1.") {
		want = nil // refused; the message says so
		if !strings.Contains(errs.String(), "Cannot recursively attach") || status.Code == 0 {
			t.Errorf("%v, and no refusal:\n%s%s", status, &out, &errs)
		}
	} else if status.Code != 0 {
		t.Errorf("%v", status)
	}
	for _, w := range want {
		if times, text, ok := strings.Cut(w, " times "); ok {
			if n := strings.Count(out.String(), text); strconv.Itoa(n) != times {
				t.Errorf("%d times %q, want %s:\n%s%s", n, text, times, &out, &errs)
			}
		} else if !strings.Contains(out.String(), w) {
			t.Errorf("no %q in:\n%s%s", w, &out, &errs)
		}
	}
}

// toolFiles are the tools and their libraries, apart from what else is in a guest.
func toolFiles(t *testing.T, arch string) (files []File) {
	t.Helper()
	cache, err := DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
	loader := map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}[arch]
	for _, name := range toolPackages {
		p, err := cache.Fetch(t.Context(), name+":"+arch)
		if err != nil {
			t.Skip(err)
		}
		for _, dir := range []string{"usr/lib/" + triplet, "lib/" + triplet} {
			found, _ := filepath.Glob(filepath.Join(p.Dir, dir, "*.so*"))
			for _, file := range found {
				if !isSoname(file) {
					continue
				}
				files = append(files, File{Host: file, Guest: "/lib/tools/" + filepath.Base(file)})
				if filepath.Base(file) == filepath.Base(loader) {
					files = append(files, File{Host: file, Guest: loader})
				}
			}
			if objects := filepath.Join(p.Dir, dir, "bpf"); isFolder(objects) {
				files = append(files, File{Host: objects, Guest: "/lib/tools/bpf"})
			}
		}
		for _, dir := range []string{"usr/sbin", "usr/bin"} {
			found, _ := filepath.Glob(filepath.Join(p.Dir, dir, "*"))
			for _, file := range found {
				f := File{Host: file, Guest: "/usr/sbin/" + filepath.Base(file)}
				if !slices.ContainsFunc(files, func(o File) bool { return o.Guest == f.Guest }) { // ip is a link to the other
					files = append(files, f)
				}
			}
		}
	}
	return files
}

// isSoname says that the dynamic linker looks for the library by this name. The others stand for the same file.
func isSoname(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false // a linker script
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	return err == nil && slices.Contains(names, filepath.Base(path))
}

// buildForeign compiles the programs of testdata/foreign, which bpftool and iproute2 load, into a folder.
func buildForeign(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip(err)
	}
	dir = t.TempDir()
	sources, err := filepath.Glob("testdata/foreign/*.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		object := filepath.Join(dir, strings.TrimSuffix(filepath.Base(source), ".c")+".o")
		// Debian's headers of the architecture, of which <linux/types.h> needs one.
		clang := exec.CommandContext(t.Context(), "clang", "-target", "bpfel", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3", "-I/usr/include/x86_64-linux-gnu", "-c", source, "-o", object)
		if out, err := clang.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
