// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
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
	older, newer check // in 6.12, and in 7.3, of which there are no recordings yet
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
	{"queue-key", "__sys_bpf", check{"queue_stack_map_alloc_check", "kernel/bpf/queue_stack_maps.c:49"}, check{"queue_stack_map_alloc_check", "kernel/bpf/queue_stack_maps.c:50"}},
	{"stack-value", "__sys_bpf", check{"stack_map_alloc", "kernel/bpf/stackmap.c:104"}, check{"stack_map_alloc", "kernel/bpf/stackmap.c:105"}},
	{"ringbuf-size", "__sys_bpf", check{"ringbuf_map_alloc", "kernel/bpf/ringbuf.c:197"}, check{"ringbuf_map_alloc", "kernel/bpf/ringbuf.c:209"}},
	{"trie-flags", "__sys_bpf", check{"trie_alloc", "kernel/bpf/lpm_trie.c:577"}, check{"trie_alloc", "kernel/bpf/lpm_trie.c:579"}},
	{"bloom-key", "__sys_bpf", check{"bloom_map_alloc", "kernel/bpf/bloom_filter.c:106"}, check{"bloom_map_alloc", "kernel/bpf/bloom_filter.c:106"}},
	{"cpu-value", "__sys_bpf", check{"cpu_map_alloc", "kernel/bpf/cpumap.c:89"}, check{"cpu_map_alloc", "kernel/bpf/cpumap.c:92"}},
	{"prog-register", "__sys_bpf", check{"__check_reg_arg", "kernel/bpf/verifier.c:3480"}, check{"__check_reg_arg", "kernel/bpf/verifier.c:3199"}},
	{"prog-exit", "__sys_bpf", check{"bpf_check", "kernel/bpf/verifier.c:3213 (check_subprogs)"}, check{"bpf_check", "kernel/bpf/verifier.c:3066 (check_subprogs)"}},
	{"prog-type", "__sys_bpf", check{"bpf_prog_load", "kernel/bpf/syscall.c:2111 (find_prog_type)"}, check{"bpf_prog_load", "kernel/bpf/syscall.c:2358 (find_prog_type)"}},
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

// in is the function in which the calls part, as diff says it.
func (d *foundDifference) in() string {
	if d.Kind == "call" && len(d.Callers) > 0 {
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
	for i, version := range [...]string{"6.12"} {
		file := func(entry string) string {
			return filepath.Join("testdata", "pairs", version, strings.Trim(entry, "_")+".ks")
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
			d := partsAt(t, file(p.entry), p.entry, nth[p.entry], "-X", "EAGAIN")
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

// pathPairs are what the first difference is of pairs that path() has recorded: what was compared where the source has
// the check, and with what the program has passed.
var pathPairs = [...]struct {
	name, fn  string
	good, bad string // the value that was compared
}{
	{"array-entries", "array_map_alloc_check", "0x10", "0x0"},
	{"array-key", "array_map_alloc_check", "0x4", "0x3"},
	{"array-flags", "array_map_alloc_check", "0x0", "0x40000000"},
	{"hash-entries", "htab_map_alloc_check", "0x10", "0x0"},
	{"hash-key", "htab_map_alloc_check", "0xc", "0x40000008"}, // with the value's size
	{"percpu-value", "array_map_alloc_check", "0x8", "0x100000"},
	{"queue-key", "queue_stack_map_alloc_check", "0x0", "0x4"},
	{"stack-value", "stack_map_alloc", "0x50", "0x4"},
	{"ringbuf-size", "ringbuf_map_alloc", "0x0", "0x1000"}, // a size is a power of two if it and the number before have no bit in common
	{"trie-flags", "trie_alloc", "0x1", "0x0"},
}

// TestPathPairs: the first difference of calls with path() is the jump that the check is.
func TestPathPairs(t *testing.T) {
	for _, version := range [...]string{"6.12"} {
		file := filepath.Join("testdata", "pairs", version, "path.ks")
		for i, p := range pathPairs {
			d := partsAt(t, file, "*", i+1)
			if d.Kind != "way" || d.Function != p.fn || !strings.Contains(d.Good, p.good) || !strings.Contains(d.Bad, p.bad) {
				t.Errorf("%s, %s: %+v", version, p.name, d)
			}
		}
	}
}
