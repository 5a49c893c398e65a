// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
)

// Options say what the code runs on and what the request asks for beyond the probe. The
// zero value of each field but Arch is fine.
type Options struct {
	Arch string // as in GOARCH: amd64 or arm64
	// Filtered says that the request filters by task. The engine evaluates these filters.
	Filtered bool
	// Stacks and Branches say what follows the values in a call's record.
	Stacks, Branches bool
	// Limited says that the rate of calls is limited (--rate).
	Limited bool
	// Subprograms are linked with every program. Filters need some.
	Subprograms []bpf.Subprogram
	// TypeID returns the kernel's BTF id of a type, to cast pointers by Kfuncs.Cast. It is nil, or returns false, where
	// pointers cannot be cast. Members are read by a helper then.
	TypeID func(btf.Type) (btf.TypeID, bool)
	// Kfuncs returns which functions of the kernel programs may call. Nil stands for none.
	Kfuncs func() Kfuncs
	// Namespace says that ksnoop runs in a PID namespace of its own. $pid and $tid are then
	// the numbers in that namespace.
	Namespace bool
	// Guard keeps programs from running inside each other; see GuardFor. The zero value is
	// no guard.
	Guard bpf.Guard
	// Tables are what calls are added to. Update.Table of a probe indexes them.
	Tables bpf.Tables
	// Self is this process, by the kernel's own PIDs, whose calls are not added up; 0: none.
	Self uint32
	// SelfOffset is where a task_struct has that number (tgid); 0: not known.
	SelfOffset uint32
	// Stash says where the frames of calls in flight are; see StashFor, which serves all
	// probes. With the zero value, Compile makes a stash for the one probe.
	Stash bpf.Stash
	// Shared asks for programs that look up their probe at run time: by the link's cookie
	// or, for MethodKprobe, by the function's address. Probes of equal shape can then share
	// programs.
	Shared bool
	// Layer is the number of shared probes that come before this one on the same function.
	Layer int
	// sparing says that the program's own frame has no room for a stack of the kernel.
	sparing bool
	// told is the program for both ends of a call that calls those of either.
	told *bpf.Subprogram
}

func (t *Options) kfuncs() Kfuncs {
	if t.Kfuncs == nil {
		return Kfuncs{}
	}
	return t.Kfuncs()
}
