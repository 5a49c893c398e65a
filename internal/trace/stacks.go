// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
)

// callerDepth is enough for a caller behind the frames of trampolines and programs.
const callerDepth = 12

// Stacks are the settings for a stack of the kernel, or the caller alone, and of the
// process, with each record. With copied, that many bytes of the stack are taken instead, for a
// process.Unwinder.
func Stacks(kernel, caller, user bool, copied uint32) (t bpf.Tail) {
	switch {
	case kernel:
		t.Stack = stackDepth()
	case caller:
		t.Stack, t.Caller = min(callerDepth, stackDepth()), true
	}
	switch t.UserCopy = copied; {
	case user && copied == 0:
		t.UserStack = stackDepth()
	}
	return t
}

// stackDepth is how many addresses the kernel's unwinder gives at most.
func stackDepth() uint32 {
	const usual = 127
	text, err := os.ReadFile("/proc/sys/kernel/perf_event_max_stack")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || n < 1 {
		return usual
	}
	return uint32(min(n, usual))
}
