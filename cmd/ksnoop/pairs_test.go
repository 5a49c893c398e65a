// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	{"write-folder", "do_sys_openat2", check{"may_open", "fs/namei.c:3406"}, check{"may_open", "fs/namei.c:4246"}},
	{"exists", "do_sys_openat2", check{"path_openat", "fs/namei.c:3811 (do_open)"}, check{"path_openat", "fs/namei.c:4807 (do_open)"}},
	{"bind-size", "__sys_bind", check{"inet_bind_sk", "net/ipv4/af_inet.c:451"}, check{"inet_bind_sk", "net/ipv4/af_inet.c:458"}},
	{"bind-family", "__sys_bind", check{"__inet_bind", "net/ipv4/af_inet.c:487"}, check{"__inet_bind", "net/ipv4/af_inet.c:494"}},
	// What __inet_bind checks is what this function has found out about the address: the first difference is its result.
	{"bind-address", "__sys_bind", check{"inet_addr_type_table", "net/ipv4/af_inet.c:503 (__inet_bind)"}, check{"inet_addr_type_table", "net/ipv4/af_inet.c:510 (__inet_bind)"}},
	{"option-size", "__sys_setsockopt", check{"sk_setsockopt", "net/core/sock.c:1189"}, check{"sk_setsockopt", "net/core/sock.c:1213"}},
	{"option", "__sys_setsockopt", check{"sk_setsockopt", "net/core/sock.c:1635"}, check{"sk_setsockopt", "net/core/sock.c:1677"}},
	{"send-port", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1188"}, check{"udp_sendmsg", "net/ipv4/udp.c:1315"}},
	{"send-size", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1180"}, check{"udp_sendmsg", "net/ipv4/udp.c:1307"}},
	{"send-family", "__sys_sendto", check{"udp_sendmsg", "net/ipv4/udp.c:1184"}, check{"udp_sendmsg", "net/ipv4/udp.c:1311"}},
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

// TestPairsTable: docs/diff.md has the table.
func TestPairsTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/diff.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range kernelPairs {
		row := fmt.Sprintf("| %s | `%s` | %s | `%s` | %s |\n", p.name, p.older.fn, p.older.at, p.newer.fn, p.newer.at)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/diff.md lacks %s", row)
		}
	}
}

// pathPairs are what the first difference is of pairs that path() has recorded: what was compared where the source has
// the check, and with what the program has passed.
var pathPairs = [...]struct {
	name, fn  string
	good, bad string // the value that was compared
	older     bool   // 7.3 does not let it be traced
}{
	{"array-entries", "array_map_alloc_check", "0x10", "0x0", false},
	{"array-key", "array_map_alloc_check", "0x4", "0x3", false},
	{"array-flags", "array_map_alloc_check", "0x0", "0x40000000", false},
	{"hash-entries", "htab_map_alloc_check", "0x10", "0x0", false},
	{"hash-key", "htab_map_alloc_check", "0xc", "0x40000008", false}, // with the value's size
	{"percpu-value", "array_map_alloc_check", "0x8", "0x100000", false},
	{"queue-key", "queue_stack_map_alloc_check", "0x0", "0x4", true},
	{"stack-value", "stack_map_alloc", "0x50", "0x4", false},
	{"ringbuf-size", "ringbuf_map_alloc", "0x0", "0x1000", true}, // a size is a power of two if it and the number before have no bit in common
	{"trie-flags", "trie_alloc", "0x1", "0x0", true},
}

// TestPathPairs: the first difference of calls with path() is the jump that the check is.
func TestPathPairs(t *testing.T) {
	for _, version := range [...]string{"6.12", "7.3"} {
		file := filepath.Join("testdata", "pairs", version, "path.ks")
		nth := 0
		for _, p := range pathPairs {
			if p.older && version != "6.12" {
				continue
			}
			nth++
			d := partsAt(t, file, "*", nth)
			if d.Kind != "way" || d.Function != p.fn || !strings.Contains(d.Good, p.good) || !strings.Contains(d.Bad, p.bad) {
				t.Errorf("%s, %s: %+v", version, p.name, d)
			}
		}
	}
}

// TestTwoRuns: two runs of the same command differ in nothing but what --ignore leaves out, with the arguments and what
// these point to.
func TestTwoRuns(t *testing.T) {
	for _, version := range [...]string{"6.12", "7.3"} {
		folder := filepath.Join("testdata", "pairs", version)
		stdout, stderr, status := ran("diff", "--format", "json", filepath.Join(folder, "same1.ks"), filepath.Join(folder, "same2.ks"))
		if status != 0 {
			t.Errorf("%s: status %d, %s%s", version, status, stdout, stderr)
		}
		if strings.Contains(stdout, `"calls":0`) || !strings.Contains(stdout, `"differences":0`) {
			t.Errorf("%s: %s", version, stdout)
		}
	}
}
