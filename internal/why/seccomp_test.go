// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"golang.org/x/sys/unix"
)

// denying refuses the system call 39 with an error, if its first argument is 1.
func denying(e unix.Errno) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ, K: k, Jf: no}
	}
	return []unix.SockFilter{load(4), equal(unix.AUDIT_ARCH_X86_64, 5), load(0), equal(39, 3), load(16), equal(1, 1),
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(e)}, {Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}
}

func TestSeccompCause(t *testing.T) {
	allow := []unix.SockFilter{{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}
	const rule = " returns SECCOMP_RET_ERRNO|EPERM at instruction 6, since args[0] (0x1) == 0x1 at 5"
	for name, tt := range map[string]struct {
		filters *filters
		want    string
	}{
		"the older of two":    {&filters{list: [][]unix.SockFilter{allow, denying(unix.EPERM)}}, ": filter 1 of 2" + rule},
		"the newest":          {&filters{list: [][]unix.SockFilter{denying(unix.EPERM), allow}}, ": filter 2 of 2" + rule},
		"of equals, the last": {&filters{list: [][]unix.SockFilter{denying(unix.EPERM), denying(unix.EINVAL)}}, ": filter 2 of 2" + rule},
		"a part of many":      {&filters{list: [][]unix.SockFilter{allow, denying(unix.EPERM)}, more: true}, ": filter 1 before the newest" + rule},
		"the newest of many":  {&filters{list: [][]unix.SockFilter{denying(unix.EPERM), allow}, more: true}, ": the newest filter" + rule},
		"cut":                 {&filters{list: [][]unix.SockFilter{denying(unix.EPERM)[:3], denying(unix.EPERM)}}, "; by which rule is not known: not all of a filter is read, or it cannot be executed"},
		"it only logs":        {&filters{list: [][]unix.SockFilter{{{Code: unix.BPF_RET, K: unix.SECCOMP_RET_LOG}}}}, "; by which rule is not known: the filters that were read do not refuse it so"},
		"another error":       {&filters{list: [][]unix.SockFilter{denying(unix.EINVAL)}}, "; by which rule is not known: the filters that were read do not refuse it so"},
		"none refuses":        {&filters{list: [][]unix.SockFilter{allow}}, "; by which rule is not known: the filters that were read do not refuse it so"},
		"not kept":            {&filters{}, "; by which rule is not known: the kernel has not kept the filter (CONFIG_CHECKPOINT_RESTORE)"},
		"not read":            {nil, "; by which rule is not known: filters are read when their thread ends"},
	} {
		f := &Failure{Number: 39, Args: [words]uint64{1}, Errno: uint64(unix.EPERM), filters: tt.filters}
		if got := seccompCause(f, "amd64"); got.Text != "refused by seccomp"+tt.want || (got.Rule != "") != (got.Instruction != nil) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestSeccompCauseOf32Bit: filters see a 32-bit call with the architecture that it is of.
func TestSeccompCauseOf32Bit(t *testing.T) {
	for arch, audit := range map[string]uint32{"amd64": unix.AUDIT_ARCH_I386, "arm64": unix.AUDIT_ARCH_ARM} {
		filter := denying(unix.EPERM)
		filter[1].K = audit
		f := &Failure{Number: 39, foreign: call32, Args: [words]uint64{1}, Errno: uint64(unix.EPERM), filters: &filters{list: [][]unix.SockFilter{filter}}}
		if got := seccompCause(f, arch); got.Action != "SECCOMP_RET_ERRNO|EPERM" {
			t.Errorf("%s: %+v", arch, got)
		}
	}
}

// TestAssignFilters: a call has the filters of its thread, which ends next, and not those of a
// thread that had the number before or has it later.
func TestAssignFilters(t *testing.T) {
	of := func(time uint64, tid uint32) *filters { return &filters{time: time, tid: tid} }
	w := watcher{seen: &Seen{Calls: []Failure{{Time: 5, TID: 1, seccomp: true}, {Time: 5, TID: 2}, {Time: 5, TID: 3, seccomp: true}}},
		released: []*filters{of(9, 1), of(4, 1), of(7, 1), of(6, 2), of(4, 3)}}
	w.assignFilters()
	c := w.seen.Calls
	if c[0].filters != w.released[2] || c[1].filters != nil || c[2].filters != nil {
		t.Errorf("%+v", c)
	}
}

// TestRefuses: __seccomp_filter in kernel/seccomp.c sets the error of SECCOMP_RET_ERRNO to no more than MAX_ERRNO, 4095.
func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		action uint32
		errno  uint64
		want   bool
	}{
		{unix.SECCOMP_RET_ERRNO | 1, 1, true},
		{unix.SECCOMP_RET_ERRNO | 1, 2, false},
		{unix.SECCOMP_RET_ERRNO | 4095, 4095, true},
		{unix.SECCOMP_RET_ERRNO | 4096, 4095, true},
		{unix.SECCOMP_RET_ERRNO | 0xffff, 4095, true},
		{unix.SECCOMP_RET_ERRNO | 0xffff, 0xffff, false},
		{unix.SECCOMP_RET_TRAP | 5, 1, true},
		{unix.SECCOMP_RET_ALLOW, 1, false},
	} {
		if got := refuses(tt.action, tt.errno); got != tt.want {
			t.Errorf("%#x and the error %d: %t", tt.action, tt.errno, got)
		}
	}
}
