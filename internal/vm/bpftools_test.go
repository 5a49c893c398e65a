// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// toolPackages have programs that were written without a thought of ksnoop, and what these are linked with.
var toolPackages = []string{"libbpf-tools", "xdp-tools", "libxdp1", "libbpf1", "libelf1t64", "zlib1g", "libzstd1", "libc6"}

// foreignPrograms are BPF programs of those tools. What they are called with is what command does, as the script says
// it, or as man pages say it: never what ksnoop has printed.
var foreignPrograms = []struct {
	tool    string // its command line
	loads   string // a program that it loads
	specs   []string
	command string
	want    []string // in what ksnoop prints
	traced  bool     // the program is itself one for tracing by BTF, which Linux lets be traced from 6.8 on
}{
	{"opensnoop-libbpf", "tracepoint__syscalls__sys_enter_openat",
		[]string{`bpf:tracepoint__syscalls__sys_enter_openat(ustr((char *)ctx->args[1]) == "/no/such/file", (int)ctx->args[0] == -100, return)`,
			"bpf:tracepoint__syscalls__sys_exit_openat(ctx->ret == -2, return)"},
		"workload open-missing -file /no/such/file", []string{`"/no/such/file"`, "ctx->ret = (long int)-2", "return = (int)0"}, false},
	{"execsnoop-libbpf", "tracepoint__syscalls__sys_enter_execve",
		[]string{`bpf:tracepoint__syscalls__sys_enter_execve(ustr((char *)ctx->args[0]) == "/bin/true", return)`},
		"sh -c '/bin/true; :'", []string{`"/bin/true"`, "return = (int)0"}, false},
	{"tcpconnect-libbpf", "tcp_v4_connect",
		[]string{"bpf:tcp_v4_connect(((struct sockaddr_in *)ctx->si)->sin_family == AF_INET, ntohs(((struct sockaddr_in *)ctx->si)->sin_port), ((struct sock *)ctx->di)->sk_protocol, return)"},
		"sh -c 'nc 127.0.0.1 7777; :'", []string{"7777", "sk_protocol = (u16)6"}, false},
	{"tcpstates-libbpf", "handle_set_state",
		[]string{"bpf:handle_set_state(ctx->newstate == TCP_SYN_SENT, ctx->oldstate == TCP_CLOSE, ctx->dport, return)"},
		"sh -c 'nc 127.0.0.1 7778; :'", []string{"ctx->dport = (__u16)7778"}, false},
	{"filetop-libbpf", "vfs_read_entry", // the compiler does not pass ctx to probe_entry(ctx, file, count, op)
		[]string{"bpf:probe_entry[vfs_read_entry]($arg2 == 33, (int)$arg3 == 0, ((struct file *)$arg1)->f_path.dentry->d_name.name)", "bpf:vfs_read_entry(ctx->dx == 33, return)"},
		"workload read -size 33 -file /dev/zero", []string{`"zero"`, "probe_entry[vfs_read_entry](", "ctx->dx = (long unsigned int)33"}, false},
	{"mountsnoop-libbpf", "mount_exit",
		[]string{`bpf:mount_entry(ustr((char *)ctx->args[1]) == "/no/such/folder", return)`, "bpf:probe_exit[mount_exit](ret == -2)"},
		"sh -c 'mount -t tmpfs none /no/such/folder; :'", []string{`"/no/such/folder"`, "ret = (int)-2"}, false},
	{"killsnoop-libbpf", "kill_entry",
		[]string{"bpf:kill_entry(ctx->args[0] == 999999, ctx->args[1] == 10, return)", "bpf:kill_exit(ctx->ret == -3, return)"},
		"sh -c 'kill -USR1 999999; :'", []string{"ctx->args[1] = (long unsigned int)10", "ctx->ret = (long int)-3"}, false},
	{"bindsnoop-libbpf", "ipv6_bind_exit",
		[]string{"bpf:ipv6_bind_entry(ntohs(((struct sockaddr_in6 *)ctx->si)->sin6_port))", "bpf:ipv6_bind_exit((int)ctx->ax == 0)", "bpf:probe_exit[ipv6_bind_exit](ver)"},
		"sh -c 'timeout 1 nc -l -p 7779; :'", []string{"7779", "ver = (short)6", "(int)ctx->ax = (int)0"}, false},
	{"runqlat-libbpf", "sched_wakeup",
		[]string{`bpf:sched_wakeup(((struct task_struct *)ctx[0])->comm == "workload", return)`},
		"workload pipe-wait -for 100ms", []string{`"workload"`, "return = (int)0"}, true},
	{"profile-libbpf -F 49 60", "do_perf_event", // 1 s / 49
		[]string{"bpf:do_perf_event(ctx->data->period == 20408163, return)"},
		"workload loop", []string{"ctx->data->period = (u64)20408163"}, false},
	{"exitsnoop-libbpf", "sched_process_exit",
		[]string{`bpf:sched_process_exit($comm == "true", return)`}, "sh -c '/bin/true; :'", []string{`$comm = "true"`, "return = (int)0"}, false},
	{"vfsstat-libbpf", "fentry_vfs_read",
		[]string{"bpf:fentry_vfs_read(ctx[2] == 33, return)"}, "workload read -size 33", []string{"ctx[2] = (unsigned long long)33", "return = (int)0"}, true},
	{"solisten-libbpf", "inet_listen_fexit", // busybox's nc listens with a backlog of 1
		[]string{"bpf:inet_listen_fexit((int)ctx[1], (int)ctx[2] == 0, return)", "bpf:fill_event(sock->type)"},
		"sh -c 'timeout 1 nc -l -p 7780; :'", []string{"(int)ctx[1] = (int)1", "sock->type = (short int)1"}, true},
	// XDP, called by a dispatcher with a subprogram for each; Ethernet, IP and ICMP have 42 bytes.
	{"xdp-loader load -m skb lo /lib/tools/bpf/xdpfilt_alw_all.o", "xdpfilt_alw_all",
		[]string{"bpf:xdpfilt_alw_all((u64)ctx->data_end - (u64)ctx->data == 119, return == XDP_PASS)"},
		"ping -q -c 1 -s 77 127.0.0.1", []string{"= (long unsigned int)119", "return = (int)2"}, false},
}

// registersOf are arm64's names for the registers of arguments and the result.
var registersOf = strings.NewReplacer("ctx->dx = (long unsigned int)", "ctx->regs[2] = (u64)",
	"ctx->di", "ctx->regs[0]", "ctx->si", "ctx->regs[1]", "ctx->dx", "ctx->regs[2]", "ctx->ax", "ctx->regs[0]")

// toolScript runs ksnoop while a tool is at work. A tool that loads programs and ends has left them where they are.
const toolScript = `
export PATH=$PATH:/usr/sbin LD_LIBRARY_PATH=/lib/tools
ip link set lo up
$TOOL >/tmp/tool.out 2>&1 </dev/null &
n=0
until ksnoop info "bpf:$LOADS" >/dev/null 2>&1; do
	n=$((n+1)); [ $n -lt 100 ] || { cat /tmp/tool.out; ksnoop info "bpf:$LOADS"; exit 99; }
	sleep 0.2
done
ksnoop trace --join "$@" -- sh -c "$WORK"
status=$?
kill %1 2>/dev/null; wait
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
		m := boot(t, Guest{Kernel: k, Memory: 3000, Files: append(files, toolFiles(t, k.Arch)...)})
		for _, c := range foreignPrograms {
			t.Run(c.tool, func(t *testing.T) {
				specs, want := c.specs, c.want
				if k.Arch == "arm64" {
					specs = strings.Split(registersOf.Replace(strings.Join(specs, "\n")), "\n")
					want = strings.Split(registersOf.Replace(strings.Join(want, "\n")), "\n")
				}
				var out, errs bytes.Buffer
				status, err := m.Run(t.Context(), Command{Args: append(sh(toolScript), append([]string{"sh"}, specs...)...),
					Env: []string{"TOOL=" + c.tool, "LOADS=" + c.loads, "WORK=" + c.command}, Stdout: &out, Stderr: &errs})
				if err != nil {
					t.Fatal(err)
				}
				if c.traced && strings.HasPrefix(k.Release, "6.1.") {
					want = nil // refused; the message says so
					if !strings.Contains(errs.String(), "Cannot recursively attach") || status.Code == 0 {
						t.Errorf("%v, and no refusal:\n%s%s", status, &out, &errs)
					}
				} else if status.Code != 0 {
					t.Errorf("%v", status)
				}
				for _, w := range want {
					if !strings.Contains(out.String(), w) {
						t.Errorf("no %q in:\n%s%s", w, &out, &errs)
					}
				}
			})
		}
	})
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
				files = append(files, File{Host: file, Guest: "/lib/tools/" + filepath.Base(file)})
				if filepath.Base(file) == filepath.Base(loader) {
					files = append(files, File{Host: file, Guest: loader})
				}
			}
			if objects := filepath.Join(p.Dir, dir, "bpf"); isFolder(objects) {
				files = append(files, File{Host: objects, Guest: "/lib/tools/bpf"})
			}
		}
		if programs := filepath.Join(p.Dir, "usr/sbin"); isFolder(programs) {
			found, _ := filepath.Glob(filepath.Join(programs, "*"))
			for _, file := range found {
				files = append(files, File{Host: file, Guest: "/usr/sbin/" + filepath.Base(file)})
			}
		}
	}
	return files
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
