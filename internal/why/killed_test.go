// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestKilled: an exit status above 128 is that of a signal only if one was delivered that nobody handles.
func TestKilled(t *testing.T) {
	handled := signalSeen{time: 3, pid: 9, comm: "late", number: uint64(unix.SIGTERM), handler: 0x401000}
	other := signalSeen{time: 2, pid: 8, comm: "child", number: uint64(unix.SIGPIPE)}
	killed := signalSeen{time: 1, pid: 7, comm: "sh", number: uint64(unix.SIGTERM)}
	for _, tt := range []struct {
		status  int
		signals []signalSeen
		want    string
	}{
		{128 + int(unix.SIGTERM), []signalSeen{killed, other, handled}, "sh[7] was killed by the signal SIGTERM: no system call was refused for it"},
		{128 + int(unix.SIGTERM), []signalSeen{other, handled}, ""},
		{128 + int(unix.SIGKILL), []signalSeen{killed}, ""},
		{0, []signalSeen{killed}, ""}, // of a child, which the command did not mind
		{1, nil, ""},
	} {
		w := watcher{seen: &Seen{Status: tt.status}, signal: tt.signals}
		got := ""
		if k := w.killed(); k != nil {
			got = k.Cause().Text
		}
		if got != tt.want {
			t.Errorf("status %d: %q, want %q", tt.status, got, tt.want)
		}
	}
}

// TestChooseKilled: a call that the command has named matters more than the signal, and so does one that
// is asked for. What was interrupted at the end does not.
func TestChooseKilled(t *testing.T) {
	wait := Failure{Time: 1, PID: 7, Function: "__x64_sys_wait4", Errno: restartSys, Params: []kernel.Field{}}
	refused := Failure{Time: 2, PID: 7, Function: "__x64_sys_mount", Errno: uint64(unix.EINVAL), Params: []kernel.Field{}}
	text := []Message{{Time: 3, PID: 7, Text: "mount: Invalid argument"}}
	killing := &Killing{Signal: "SIGKILL", Comm: "sh", PID: 7}
	for name, tt := range map[string]struct {
		seen Seen
		wish Wish
		want int
		err  error
	}{
		"killed":    {Seen{Calls: []Failure{wait, refused}, Status: 137, Killed: killing}, Wish{}, 0, ErrKilled},
		"no calls":  {Seen{Status: 137, Killed: killing}, Wish{}, 0, ErrKilled},
		"named":     {Seen{Calls: []Failure{wait, refused}, Messages: text, Status: 137, Killed: killing}, Wish{}, 1, nil},
		"asked for": {Seen{Calls: []Failure{wait, refused}, Status: 137, Killed: killing}, Wish{Syscall: "wait4"}, 0, nil},
		"exited":    {Seen{Calls: []Failure{wait, refused}, Status: 137}, Wish{}, 1, nil},
	} {
		if got, _, err := tt.seen.Choose(tt.wish); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: call %d, %v; want %d, %v", name, got, err, tt.want, tt.err)
		}
	}
}
