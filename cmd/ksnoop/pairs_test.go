// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The recordings in testdata/pairs are made, for each version, in its folder by
//
//	go run ./internal/vm/guestrun -kernel VERSION -file cmd/ksnoop/testdata/pairs/pairs.sh:/pairs.sh sh /pairs.sh | tar -x

// A check is where a kernel refuses what a pair of workload has wrong. From the source of Debian's kernels 6.12.117 and
// 7.3.4 (linux-source-6.12, linux-source-7.3).
type check struct {
	fn string // the function that is compiled into, if it is traced
	at string // where in the source; in parentheses the function there, if it is inlined or not traced
}

// kernelPairs are the pairs of workload in their order, with the system call's entry function.
var kernelPairs = [...]struct {
	name, entry  string
	older, newer check // in 6.12 and in 7.3
}{
	{"array-entries", "__sys_bpf", check{"array_map_alloc_check", "kernel/bpf/arraymap.c:58"}, check{"array_map_alloc_check", "kernel/bpf/arraymap.c:59"}},
	{"array-key", "__sys_bpf", check{"array_map_alloc_check", "kernel/bpf/arraymap.c:58"}, check{"array_map_alloc_check", "kernel/bpf/arraymap.c:59"}},
	{"array-flags", "__sys_bpf", check{"array_map_alloc_check", "kernel/bpf/arraymap.c:60"}, check{"array_map_alloc_check", "kernel/bpf/arraymap.c:61"}},
	{"hash-entries", "__sys_bpf", check{"htab_map_alloc_check", "kernel/bpf/hashtab.c:464"}, check{"htab_map_alloc_check", "kernel/bpf/hashtab.c:452"}},
	{"hash-key", "__sys_bpf", check{"htab_map_alloc_check", "kernel/bpf/hashtab.c:468"}, check{"htab_map_alloc_check", "kernel/bpf/hashtab.c:456"}},
	{"percpu-value", "__sys_bpf", check{"array_map_alloc_check", "kernel/bpf/arraymap.c:77"}, check{"array_map_alloc_check", "kernel/bpf/arraymap.c:78"}},
	{"type", "__sys_bpf", check{"map_create", "kernel/bpf/syscall.c:1254"}, check{"map_create", "kernel/bpf/syscall.c:1436 (map_create_alloc)"}},
	{"node", "__sys_bpf", check{"map_create", "kernel/bpf/syscall.c:1247"}, check{"map_create", "kernel/bpf/syscall.c:1427 (map_create_alloc)"}},
	{"name", "__sys_bpf", check{"bpf_obj_name_cpy", "kernel/bpf/syscall.c:1073"}, check{"bpf_obj_name_cpy", "kernel/bpf/syscall.c:1233"}},
	{"queue-key", "__sys_bpf", check{"queue_stack_map_alloc_check", "kernel/bpf/queue_stack_maps.c:49"}, check{"map_create", "kernel/bpf/queue_stack_maps.c:50 (queue_stack_map_alloc_check)"}},
	{"stack-value", "__sys_bpf", check{"stack_map_alloc", "kernel/bpf/stackmap.c:104"}, check{"stack_map_alloc", "kernel/bpf/stackmap.c:105"}},
	{"ringbuf-size", "__sys_bpf", check{"ringbuf_map_alloc", "kernel/bpf/ringbuf.c:197"}, check{"map_create", "kernel/bpf/ringbuf.c:209 (ringbuf_map_alloc)"}},
	{"trie-flags", "__sys_bpf", check{"trie_alloc", "kernel/bpf/lpm_trie.c:577"}, check{"map_create", "kernel/bpf/lpm_trie.c:579 (trie_alloc)"}},
	{"bloom-key", "__sys_bpf", check{"bloom_map_alloc", "kernel/bpf/bloom_filter.c:106"}, check{"bloom_map_alloc", "kernel/bpf/bloom_filter.c:106"}},
	{"cpu-value", "__sys_bpf", check{"cpu_map_alloc", "kernel/bpf/cpumap.c:89"}, check{"cpu_map_alloc", "kernel/bpf/cpumap.c:92"}},
	{"prog-register", "__sys_bpf", check{"__check_reg_arg", "kernel/bpf/verifier.c:3480"}, check{"check_reg_arg", "kernel/bpf/verifier.c:3199 (__check_reg_arg)"}},
	{"prog-exit", "__sys_bpf", check{"bpf_check", "kernel/bpf/verifier.c:3213 (check_subprogs)"}, check{"bpf_check", "kernel/bpf/verifier.c:3066 (check_subprogs)"}},
	{"prog-type", "__sys_bpf", check{"bpf_prog_load", "kernel/bpf/syscall.c:2111 (find_prog_type)"}, check{"bpf_prog_load", "kernel/bpf/syscall.c:2358 (find_prog_type)"}},
	{"resolve", "do_sys_openat2", check{"do_sys_openat2", "fs/open.c:1245 (build_open_flags)"}, check{"do_sys_openat2", "fs/open.c:1231 (build_open_flags)"}},
	{"mode", "do_sys_openat2", check{"do_sys_openat2", "fs/open.c:1258 (build_open_flags)"}, check{"do_sys_openat2", "fs/open.c:1244 (build_open_flags)"}},
	{"missing", "do_sys_openat2", check{"step_into", "fs/namei.c:1917"}, check{"step_into_slowpath", "fs/namei.c:2116"}},
	{"below-file", "do_sys_openat2", check{"link_path_walk", "fs/namei.c:2446"}, check{"link_path_walk", "fs/namei.c:2671"}},
	{"no-folder", "do_sys_openat2", check{"path_openat", "fs/namei.c:3819 (do_open)"}, check{"path_openat", "fs/namei.c:4819 (do_open)"}},
	{"write-folder", "do_sys_openat2", check{"may_open", "fs/namei.c:3405"}, check{"may_open", "fs/namei.c:4245"}},
	{"exists", "do_sys_openat2", check{"path_openat", "fs/namei.c:3811 (do_open)"}, check{"path_openat", "fs/namei.c:4807 (do_open)"}},
	{"bind-size", "__sys_bind", check{"inet_bind_sk", "net/ipv4/af_inet.c:451"}, check{"inet_bind_sk", "net/ipv4/af_inet.c:458"}},
	{"bind-family", "__sys_bind", check{"__inet_bind", "net/ipv4/af_inet.c:487"}, check{"__inet_bind", "net/ipv4/af_inet.c:494"}},
	// What __inet_bind checks is what this function has found out about the address: the first difference is its result.
	{"bind-address", "__sys_bind", check{"inet_addr_type_table", "net/ipv4/af_inet.c:503 (__inet_bind)"}, check{"inet_addr_type_table", "net/ipv4/af_inet.c:510 (__inet_bind)"}},
	{"option-size", "__sys_setsockopt", check{"sk_setsockopt", "net/core/sock.c:1189"}, check{"sk_setsockopt", "net/core/sock.c:1213"}},
	{"option", "__sys_setsockopt", check{"sk_setsockopt", "net/core/sock.c:1635"}, check{"sk_setsockopt", "net/core/sock.c:1677"}},
	{"send-port", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1189"}, check{"udp_sendmsg", "net/ipv4/udp.c:1316"}},
	{"send-size", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1180"}, check{"udp_sendmsg", "net/ipv4/udp.c:1307"}},
	{"send-family", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1183"}, check{"udp_sendmsg", "net/ipv4/udp.c:1310"}},
}

// A foundDifference is a line of diff --format json.
type foundDifference struct {
	Kind, Function, Name string
	Callers              []string
	Good, Bad            string
}

// in is the function in which the calls part, as diff says it. If only the bad one has a call, and that fails, it
// is in the function called.
func (d *foundDifference) in() string {
	if d.Kind == "call" && len(d.Callers) > 0 && !strings.HasPrefix(d.Bad, "-E") {
		return d.Callers[len(d.Callers)-1]
	}
	return d.Function
}

// partsAt returns the first difference of the nth call of a function that failed, and of the one that
// succeeded before.
func partsAt(t *testing.T, file, entry string, nth int, more ...string) *foundDifference {
	t.Helper()
	stdout, stderr, status := ran(append([]string{"diff", "--format", "json", "--entry", entry, "--nth", fmt.Sprint(nth), file}, more...)...)
	lines := strings.Split(stdout, "\n")
	if status != exitDiffers || len(lines) < 3 {
		t.Fatalf("%s, %s, %d: status %d, %s%s", file, entry, nth, status, stdout, stderr)
	}
	var d foundDifference
	if err := json.Unmarshal([]byte(lines[1]), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// failures counts the sessions of a recording that failed, by entry function. Those with EAGAIN do not count: the
// verifier gives up where a signal is pending, and the program is loaded again.
func failures(t *testing.T, file string) map[string]int {
	t.Helper()
	stdout, stderr, status := ran("replay", "--format", "json", "-x", "any", "-X", "EAGAIN", file)
	if status != 0 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	failed := map[string]int{}
	for line := range strings.Lines(stdout) {
		var e struct{ Kind, Name string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == "session" {
			failed[e.Name]++
		}
	}
	return failed
}

// TestPairs: of a call that fails and its smallest correction, the first difference is in the function that holds the
// check, as the kernel's source has it.
func TestPairs(t *testing.T) {
	for i, version := range [...]string{"6.12", "7.3"} {
		file := func(entry string) string {
			return filepath.Join("testdata", "pairs", version, strings.TrimPrefix(strings.Trim(entry, "_"), "do_sys_")+".ks")
		}
		nth := map[string]int{}
		for _, p := range kernelPairs {
			if _, ok := nth[p.entry]; !ok {
				nth[p.entry] = failures(t, file(p.entry))[p.entry]
			}
		}
		for _, p := range kernelPairs { // what comes before them is Go's runtime
			nth[p.entry]--
		}
		right := 0
		for _, p := range kernelPairs {
			want := [...]check{p.older, p.newer}[i]
			nth[p.entry]++
			// What lookup_fast has found is what is checked: the name in the cache.
			d := partsAt(t, file(p.entry), p.entry, nth[p.entry], "-X", "EAGAIN", "--ignore", "lookup_fast()")
			got, _, _ := strings.Cut(d.in(), ".") // a part that the compiler has made
			if got != want.fn {
				t.Errorf("%s, %s: the first difference is in %s, want %s: %+v", version, p.name, got, want.fn, d)
				continue
			}
			right++
		}
		t.Logf("%s: %d of %d", version, right, len(kernelPairs))
	}
}

// A condition is what refuses the bad one of a pair: the lines of its if or switch in the source of the two kernels.
type condition struct{ name, older, newer string }

// pathPairs are pairs of which the first difference, with path(), is a jump of that condition. They have all others of
// kernelPairs before or behind them in notFirst.
var pathPairs = [...]condition{
	{"array-entries", "kernel/bpf/arraymap.c:58-62", "kernel/bpf/arraymap.c:59-63"},
	{"array-key", "kernel/bpf/arraymap.c:58-62", "kernel/bpf/arraymap.c:59-63"},
	{"array-flags", "kernel/bpf/arraymap.c:58-62", "kernel/bpf/arraymap.c:59-63"},
	{"hash-entries", "kernel/bpf/hashtab.c:464-465", "kernel/bpf/hashtab.c:452-453"},
	{"hash-key", "kernel/bpf/hashtab.c:468-469", "kernel/bpf/hashtab.c:456-457"},
	{"percpu-value", "kernel/bpf/arraymap.c:77-77", "kernel/bpf/arraymap.c:78-78"},
	{"type", "kernel/bpf/syscall.c:1254-1254", "kernel/bpf/syscall.c:1436-1436"},
	{"queue-key", "kernel/bpf/queue_stack_maps.c:49-52", ""},
	{"stack-value", "kernel/bpf/stackmap.c:103-104", "kernel/bpf/stackmap.c:104-105"},
	{"ringbuf-size", "kernel/bpf/ringbuf.c:196-198", ""},
	{"trie-flags", "kernel/bpf/lpm_trie.c:576-583", ""},
	{"bloom-key", "kernel/bpf/bloom_filter.c:106-113", "kernel/bpf/bloom_filter.c:106-113"},
	{"cpu-value", "kernel/bpf/cpumap.c:88-91", "kernel/bpf/cpumap.c:91-94"},
	{"prog-register", "", "kernel/bpf/verifier.c:3199-3199"},
	{"no-folder", "fs/namei.c:3819-3819", "fs/namei.c:4819-4819"},
	{"write-folder", "fs/namei.c:3405-3405", "fs/namei.c:4245-4245"},
	{"bind-size", "net/ipv4/af_inet.c:451-451", "net/ipv4/af_inet.c:458-458"},
	{"bind-family", "net/ipv4/af_inet.c:482-488", "net/ipv4/af_inet.c:489-495"},
	{"bind-address", "net/ipv4/af_inet.c:503-504", "net/ipv4/af_inet.c:510-511"},
	{"option-size", "net/core/sock.c:1189-1189", "net/core/sock.c:1213-1213"},
	{"option", "net/core/sock.c:1198-1198", "net/core/sock.c:1222-1222"}, // the switch, whose default refuses it
	{"send-port", "net/ipv4/udp.c:1189-1189", "net/ipv4/udp.c:1316-1316"},
	{"send-size", "net/ipv4/udp.c:1180-1180", "net/ipv4/udp.c:1307-1307"},
	{"send-family", "net/ipv4/udp.c:1182-1183", "net/ipv4/udp.c:1309-1310"},
}

// notFirst are the pairs that part elsewhere before the check, and why.
var notFirst = map[string]string{
	"node":          "bpf_map_attr_numa_node() looks for the flag, which the good one has not",
	"name":          "the good one has no name, so that the loop over its bytes ends before",
	"prog-register": "the good one reads no register, and whether it does comes before",
	"prog-exit":     "the good one has an instruction more, and a loop over them comes before",
	"prog-type":     "is_net_admin_prog_type() has a switch over the type before",
	"resolve":       "build_open_flags() is inline, and so notrace",
	"mode":          "build_open_flags() is inline, and so notrace",
	"missing":       "a name that does not exist ends the walk under RCU",
	"below-file":    "the path with one component more goes round the loop again",
	"exists":        "a file that is there is opened under RCU, unless O_EXCL is given",
}

// pathEntries are the functions in whose calls the pairs are, as path.ks has them.
var pathEntries = map[string]string{"__sys_bpf": "map_create", "do_sys_openat2": "do_sys_openat2", "__sys_bind": "inet_bind_sk", "__sys_setsockopt": "sk_setsockopt",
	"__sys_sendto": "udp_sendmsg"}

// pathEntry returns the function in whose call a pair is.
func pathEntry(name, entry string) string {
	if strings.HasPrefix(name, "prog-") {
		return "bpf_prog_load"
	}
	return pathEntries[entry]
}

// sourceLines are the source lines of places in code, as llvm-symbolizer has them:
//
//	llvm-symbolizer --obj=VMLINUX --inlines ADDRESS
//
// of the address of the function in VMLINUX and the offset. The innermost line comes first.
func sourceLines(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		lines[f[0]] = f[1:]
	}
	return lines
}

// onLines reports whether a line, as FILE:LINE, is one of FILE:FIRST-LAST.
func onLines(line, of string) bool {
	file, at, _ := strings.Cut(line, ":")
	want, lines, _ := strings.Cut(of, ":")
	var n, first, last int
	_, err := fmt.Sscan(at, &n)
	_, err2 := fmt.Sscanf(lines, "%d-%d", &first, &last)
	return err == nil && err2 == nil && file == want && n >= first && n <= last
}

// failedCalls counts the calls of a function in a recording that failed.
func failedCalls(t *testing.T, file, fn string) (n int) {
	t.Helper()
	stdout, stderr, status := ran("replay", "--format", "json", file)
	if status != 0 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	for line := range strings.Lines(stdout) {
		var e struct {
			Kind, Name string
			Values     struct{ Return struct{ Error string } }
		}
		if err := json.Unmarshal([]byte(line), &e); err == nil && e.Kind == "call" && e.Name == fn && e.Values.Return.Error != "" {
			n++
		}
	}
	return n
}

// TestPathPairs: the first difference of calls with path() is the jump of the check, on its line of the source. docs/diff.md
// has the table.
func TestPathPairs(t *testing.T) {
	page, err := os.ReadFile("../../docs/diff.md")
	if err != nil {
		t.Fatal(err)
	}
	named := [2]map[string]string{{}, {}} // lines by the names of pairs
	for i, version := range [...]string{"6.12", "7.3"} {
		file := filepath.Join("testdata", "pairs", version, "path.ks")
		lines := sourceLines(t, filepath.Join("testdata", "pairs", version, "lines.txt"))
		nth := map[string]int{}
		for _, p := range kernelPairs {
			entry := pathEntry(p.name, p.entry)
			if _, ok := nth[entry]; !ok {
				nth[entry] = failedCalls(t, file, entry)
			}
		}
		for _, p := range kernelPairs { // what comes before them is Go's runtime
			nth[pathEntry(p.name, p.entry)]--
		}
		right := 0
		for _, p := range kernelPairs {
			entry := pathEntry(p.name, p.entry)
			nth[entry]++
			d := partsAt(t, file, entry, nth[entry], "--ignore", "lookup_fast()")
			at, _, _ := strings.Cut(d.Name, " ")
			if at = strings.TrimPrefix(at, d.Function); strings.HasPrefix(at, "+") || strings.HasPrefix(at, ".") {
				at = d.Function + at
			}
			var want string
			for _, c := range pathPairs {
				if c.name == p.name {
					want = [...]string{c.older, c.newer}[i]
				}
			}
			found := slices.IndexFunc(lines[at], func(line string) bool { return onLines(line, want) })
			switch {
			case d.Kind == "way" && found >= 0:
				_, named[i][p.name], _ = strings.Cut(lines[at][found], ":")
				right++
			case want != "":
				t.Errorf("%s, %s: the first difference is at %v, want %s: %+v", version, p.name, lines[at], want, d)
			case notFirst[p.name] == "" && !(version == "7.3" && p.older.fn != p.newer.fn): // whose function 7.3 does not let be traced
				t.Errorf("%s, %s: nothing says why there is no line", version, p.name)
			}
		}
		t.Logf("%s: the line of %d of %d", version, right, len(kernelPairs))
		if right < 20 {
			t.Errorf("%s: the line of %d", version, right)
		}
		if count := fmt.Sprintf("%d of %d on %s", right, len(kernelPairs), version); !strings.Contains(string(page), count) {
			t.Errorf("docs/diff.md lacks %q", count)
		}
	}
	for _, p := range kernelPairs {
		row := fmt.Sprintf("| %s | `%s` | %s | %s | `%s` | %s | %s |\n", p.name, p.older.fn, p.older.at, cmp.Or(named[0][p.name], "–"), p.newer.fn, p.newer.at, cmp.Or(named[1][p.name], "–"))
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/diff.md lacks %s", row)
		}
	}
}

// twoRuns are commands of which there are two recordings each, with what is compared of them, which has calls of entry.
// Those of dd, mount and socket are of Linux 6.12, and of 7.3 with --attach=session, after a first run that nobody looks at
// and without the file of dd. 7.3 has no alloc_super:
//
//	ksnoop trace -T -S -A -s none -n dd --record dd1.ks -e ksys_write -a 'shmem_*' -- dd if=/dev/zero of=/tmp/f bs=2M count=2
//	ksnoop trace -T -S -A -s none -n mount -n umount --record mount1.ks -e __x64_sys_mount -e path_umount -a 'shmem_*' -a 'vfs_*' -a '*_mount' \
//	    -a alloc_super -a 'mnt_*' -a 'security_*' -- sh -c 'mount -t tmpfs -o size=1m none /tmp/m; umount /tmp/m'
//	ksnoop trace -T -S -A -s none -n workload --record socket1.ks -e __sys_sendto -e __sys_bind -e __sys_setsockopt -a 'udp_*' -a 'inet_*' \
//	    -a 'ip_*' -a 'sock_*' -a 'sk_*' -a 'skb_*' -- workload pairs
var twoRuns = [...]struct {
	versions    []string
	name, entry string
	args        []string
}{
	{[]string{"6.12", "7.3"}, "same", "__sys_bpf", nil},
	{[]string{"6.12", "7.3"}, "dd", "ksys_write", []string{"--entry", "ksys_write", "--nth", "1"}}, // the second write is a message to a file with another name
	{[]string{"6.12", "7.3"}, "mount", "path_umount", nil},
	{[]string{"6.12", "7.3"}, "socket", "__sys_sendto", []string{"--ignore", "inet_addr_type_dev_table()", "--ignore", "skb_push()"}}, // the first run has found the neighbour
}

// TestTwoRuns: two runs of the same command differ in nothing but what --ignore leaves out, with the arguments and what
// these point to.
func TestTwoRuns(t *testing.T) {
	for _, c := range twoRuns {
		for _, version := range c.versions {
			first, second := filepath.Join("testdata", "pairs", version, c.name+"1.ks"), filepath.Join("testdata", "pairs", version, c.name+"2.ks")
			stdout, stderr, status := ran(append([]string{"diff", "--format", "json", first, second}, c.args...)...)
			if status != 0 || !strings.Contains(stdout, `"differences":0`) {
				t.Errorf("%s, %s: status %d, %.2000s%s", version, c.name, status, stdout, stderr)
			}
			// There are such calls: with addresses, times and all else, they differ.
			if _, stderr, status := ran("diff", "--brief", "--exact", "--entry", c.entry, first, second); status != exitDiffers {
				t.Errorf("%s, %s, exactly: status %d, %s", version, c.name, status, stderr)
			}
		}
	}
}
