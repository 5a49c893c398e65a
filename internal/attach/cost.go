// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"time"

	"github.com/ksnoop/ksnoop/layout"
)

// What a run of a program costs besides the program, which is what the kernel measures:
// 48 ns by a trampoline and 110 ns by a kprobe on Linux 6.12 (iopsystems/rezolus,
// pull request 1155); 15 ns by a tracepoint (cloudflare/ebpf_exporter, benchmark).
const (
	trampolineCost = 50 * time.Nanosecond
	kprobeCost     = 110 * time.Nanosecond
	tracepointCost = 15 * time.Nanosecond
	uprobeCost     = 1000 * time.Nanosecond // two traps: a breakpoint and a single step
)

// RunCost returns what a run of a program costs besides the program itself.
func RunCost(m layout.Method) time.Duration {
	switch {
	case m.Trampoline() || m == layout.MethodTracingMulti:
		return trampolineCost
	case m == layout.MethodTracepoint || m == layout.MethodTPBTF || m == layout.MethodRawTP:
		return tracepointCost
	case m == layout.MethodUprobe:
		return uprobeCost
	}
	return kprobeCost
}

// A measured is a program whose runs the kernel measures.
type measured struct {
	program program
	perRun  time.Duration // what a run costs besides
}

// programTime is the time that the programs of probes have taken, of all CPUs together, and
// only while the kernel measures it.
func (t *Tracer) programTime() (sum time.Duration) {
	for _, m := range t.measured {
		stats, err := m.program.Stats()
		if err != nil {
			continue // a program that was taken off again
		}
		sum += stats.Runtime + time.Duration(stats.RunCount)*m.perRun
	}
	return sum
}
