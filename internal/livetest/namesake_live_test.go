// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveNamesakes: fs/namespace.c and fs/proc/task_mmu.c have a function
// m_start each. Both are traced, by their addresses.
func TestLiveNamesakes(t *testing.T) {
	guest.Require(t)
	for _, file := range []string{"mounts", "maps"} {
		out := traced(t, "trace", "m_start()", "--", "cat", "/proc/self/"+file)
		if records(out, "cat", "m_start") == 0 {
			t.Errorf("reading %s calls no m_start:\n%s", file, out)
		}
	}
	// kernel/bpf/verifier.c has a function verbose, which check_reg_arg calls to
	// complain about a register; Linux 6.12 has a variable of that name as well.
	out := traced(t, "trace", "verbose(fmt)", "--", "workload", "prog-uninit")
	if records(out, "workload", "verbose") == 0 || !strings.Contains(out, "!read_ok") {
		t.Errorf("the verifier does not complain by verbose:\n%s", out)
	}
}

// TestLiveAlias: BTF and ftrace know __x64_sys_getppid by another name only.
func TestLiveAlias(t *testing.T) {
	guest.Require(t)
	work := []string{"--", "workload", "loop", "-call", "getppid", "-batches", "1", "-calls", "20"}
	for _, flag := range []string{"--attach=fentry", "--attach=kprobe"} {
		out := traced(t, append([]string{"trace", flag, sys + "getppid(return > 0)"}, work...)...)
		if n := records(out, "workload", sys+"getppid"); n != 40 || !strings.Contains(out, "return = (long int)") {
			t.Errorf("%s: %d records of 40 calls:\n%s", flag, n, out)
		}
	}
	out := traced(t, append([]string{"trace", "__*_sys_getppid()"}, work...)...)
	if n := records(out, "workload", "__do_sys_getppid") + records(out, "workload", sys+"getppid") + records(out, "workload", "__ia32_sys_getppid"); n != 40 {
		t.Errorf("%d records of 40 calls by a glob that all names match:\n%s", n, out)
	}
}

// TestLiveCopies: of some functions the compiler has kept nothing but a copy of
// changed signature, under another name.
func TestLiveCopies(t *testing.T) {
	guest.Require(t)
	list, err := os.ReadFile("/sys/kernel/tracing/available_filter_functions")
	if err != nil {
		t.Fatal(err)
	}
	whole, name := map[string]bool{}, ""
	var copies []string
	for line := range bytes.Lines(list) {
		fn, _, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		whole[fn] = true
		if strings.HasSuffix(fn, ".isra.0") {
			copies = append(copies, strings.TrimSuffix(fn, ".isra.0"))
		}
	}
	for _, c := range copies {
		if !whole[c] {
			name = c
		}
	}
	stdout, stderr, status := ksnoop(t, "trace", "--dry-run", name)
	if status != 0 || !strings.Contains(stdout, name+".isra.0, by kprobe") {
		t.Errorf("%s: status %d\n%s%s", name, status, stdout, stderr)
	}
	if out := traced(t, "trace", name+"()", "--", "true"); !strings.Contains(out, "FUNCTION") {
		t.Errorf("%s:\n%s", name, out)
	}
}

// TestLiveStackParameters: ip_make_skb has ten parameters, four of which are
// passed on the stack, and was called for a datagram of 56 bytes to 127.0.0.1.
func TestLiveStackParameters(t *testing.T) {
	guest.Require(t)
	for _, flag := range []string{"--attach=auto", "--attach=kprobe"} {
		targetCase{`ip_make_skb(length == 64, transhdrlen == 8, ipc->addr == 0x0100007f, (*rtp)->dst.dev->name == "lo", (u64)cork >> 48 == 0xffff || (u64)cork >> 56 == 0xff, flags == 0, (long)return < 0)`,
			"udp-send -count 3 -size 56", "workload", "ip_make_skb", 3}.run(t, flag)
	}
}

// TestLiveStructParameter: sk_setsockopt takes a struct of 16 bytes by value,
// in two registers.
func TestLiveStructParameter(t *testing.T) {
	guest.Require(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, flag := range []string{"--attach=auto", "--attach=kprobe"} {
		trace := startTrace(t, flag, "-c", "1", "sk_setsockopt(optname == SO_MARK, !optval.is_kernel, *(int *)user(optval.user) == 4321, optlen == 4, optval, return == 0)")
		for _, mark := range []int{1234, 4321} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := trace.wait(t)
		if !strings.Contains(out, "*(int *)user(optval.user) = (int)4321") || !strings.Contains(out, "optval = (sockptr_t){") {
			t.Errorf("%s:\n%s", flag, out)
		}
	}
}
