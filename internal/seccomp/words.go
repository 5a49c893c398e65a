// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/errno"
)

// An action is what a filter can say, besides data.
type action struct {
	value uint32
	name  string
}

// actions are those that there are, those that go before others first.
var actions = []action{
	{unix.SECCOMP_RET_KILL_PROCESS, "KILL_PROCESS"}, {unix.SECCOMP_RET_KILL_THREAD, "KILL_THREAD"}, {unix.SECCOMP_RET_TRAP, "TRAP"}, {unix.SECCOMP_RET_ERRNO, "ERRNO"},
	{unix.SECCOMP_RET_USER_NOTIF, "USER_NOTIF"}, {unix.SECCOMP_RET_TRACE, "TRACE"}, {unix.SECCOMP_RET_LOG, "LOG"}, {unix.SECCOMP_RET_ALLOW, "ALLOW"},
}

// Compare says which of two verdicts goes before the other, as the kernel chooses: -1 is the first.
func Compare(a, b uint32) int {
	return cmp.Compare(int32(a&unix.SECCOMP_RET_ACTION_FULL), int32(b&unix.SECCOMP_RET_ACTION_FULL))
}

// ActionName returns an action as the source has it: "SECCOMP_RET_ERRNO|EPERM".
func ActionName(said uint32) string {
	i := slices.IndexFunc(actions, func(a action) bool { return a.value == said&unix.SECCOMP_RET_ACTION_FULL })
	data := said & unix.SECCOMP_RET_DATA
	if i < 0 {
		return fmt.Sprintf("%#x, which is none that the kernel knows", said)
	}
	name := "SECCOMP_RET_" + actions[i].name
	switch e := errno.Name(uint64(data)); {
	case actions[i].value == unix.SECCOMP_RET_ERRNO && e != "":
		return name + "|" + e
	case data != 0:
		return fmt.Sprintf("%s|%d", name, data)
	}
	return name
}

// place returns a place in Data as the header has it: "args[1]".
func place(offset int) string {
	switch {
	case offset == 0:
		return "nr"
	case offset == 4:
		return "arch"
	case offset < 16:
		return half("instruction_pointer", offset)
	}
	return half(fmt.Sprintf("args[%d]", (offset-16)/8), offset)
}

// half names one half of a value.
func half(name string, offset int) string {
	if offset%8 == 4 {
		return name + ">>32"
	}
	return name
}

// String returns the comparison that held: "args[1] (0x3) == 0x3".
func (d *Decision) String() string {
	what := "a value"
	if d.loaded >= 0 {
		what = place(d.loaded)
		if d.changed {
			what = "a value of " + what
		}
	}
	return fmt.Sprintf("%s (%#x) %s %#x", what, d.value, d.operator, d.with)
}
