// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestKilled: an exit status above 128 is that of a signal only if that has ended a process. A process is called by the
// name of its first thread, where that has ended with it.
func TestKilled(t *testing.T) {
	other := ending{time: 1, pid: 8, tid: 8, comm: "child", signal: uint64(unix.SIGPIPE)}
	early := ending{time: 2, pid: 6, tid: 6, comm: "early", signal: uint64(unix.SIGTERM)}
	killed := ending{time: 3, pid: 7, tid: 7, comm: "sh", signal: uint64(unix.SIGTERM)}
	worker := ending{time: 4, pid: 7, tid: 9, comm: "worker", signal: uint64(unix.SIGTERM)}
	denied := ending{time: 5, pid: 7, tid: 9, comm: "worker", signal: uint64(unix.SIGSYS)}
	sent := ending{time: 6, pid: 8, tid: 8, comm: "child", signal: uint64(unix.SIGSYS)}
	for _, tt := range []struct {
		status int
		ends   []ending
		want   string
	}{
		{128 + int(unix.SIGSYS), []ending{sent, denied}, "worker[7] was killed by the signal SIGSYS: seccomp has refused its system call 110"},
		{128 + int(unix.SIGSYS), []ending{denied, sent}, "child[8] was killed by the signal SIGSYS: no system call was refused for it"},
		{128 + int(unix.SIGTERM), []ending{other, early, killed}, "sh[7] was killed by the signal SIGTERM: no system call was refused for it"},
		{128 + int(unix.SIGTERM), []ending{early, killed, worker}, "sh[7] was killed by the signal SIGTERM: no system call was refused for it"},
		{128 + int(unix.SIGTERM), []ending{early, worker}, "worker[7] was killed by the signal SIGTERM: no system call was refused for it"},
		{128 + int(unix.SIGPIPE), []ending{other}, "child[8] was killed by the signal SIGPIPE: no system call of it was seen to fail with EPIPE"}, // it may have written a part
		{128 + int(unix.SIGTERM), []ending{other}, ""},
		{128 + int(unix.SIGKILL), []ending{killed}, ""},
		{0, []ending{killed}, ""}, // of a child, which the command did not mind
		{1, nil, ""},
	} {
		w := watcher{seen: &Seen{Status: tt.status}, ends: tt.ends, denied: []denial{{time: 4, number: 110, tid: 9}, {time: 6, number: 39, tid: 9}}}
		got := ""
		if k := w.killed(); k != nil {
			got = k.Cause().Text
		}
		if got != tt.want {
			t.Errorf("status %d: %q, want %q", tt.status, got, tt.want)
		}
	}
}

// TestKilledByLater: seccomp returns an error for a call, and later something else sends SIGSYS. The call that has
// returned has not ended the process. A denial whose call did not return has.
func TestKilledByLater(t *testing.T) {
	end := ending{time: 9, pid: 7, tid: 7, comm: "sh", signal: uint64(unix.SIGSYS)}
	for want, denied := range map[string][]denial{
		"sh[7] was killed by the signal SIGSYS: no system call was refused for it":             {{time: 4, number: 39, tid: 7}},
		"sh[7] was killed by the signal SIGSYS: seccomp has refused its system call 110":       {{time: 4, number: 39, tid: 7}, {time: 8, number: 110, tid: 7}},
		"sh[7] was killed by the signal SIGSYS: seccomp has refused its 32-bit system call 20": {{time: 2, number: 20, foreign: call32, tid: 7}},
	} {
		w := watcher{seen: &Seen{Status: 128 + int(unix.SIGSYS), Calls: []Failure{{Time: 5, TID: 7, Number: 39, Errno: uint64(unix.EPERM)}}}, ends: []ending{end}, denied: denied}
		w.assign()
		if k := w.killed(); k == nil || k.Cause().Text != want {
			t.Errorf("%+v, want %s", k, want)
		}
	}
}

// TestDenial: a number means another system call where it is one of 32 bits (39 is mkdir there), and none has the name of
// what the table has for the numbers of no system call. On arm64 __seccomp_filter cannot see which kind of call it is.
func TestDenial(t *testing.T) {
	files := fstest.MapFS{"proc/kallsyms": {Data: []byte("ffffffff81000000 T __x64_sys_setsid\nffffffff81000100 T __x64_sys_ni_syscall\nffffffff81000200 T last\n")}}
	a := abis["amd64"]
	w := watcher{abi: &a, runner: &Runner{Kernel: kernel.Open(files)}}
	for _, tt := range []struct {
		number, state, serving uint64
		want                   string
	}{
		{112, 0, 0xffffffff81000000, "system call setsid"},
		{112, 0, 0xffffffff81000008, "system call 112"},
		{112, 0, 0, "system call 112"},
		{39, 2, 0xffffffff81000000, "32-bit system call 39"},
		{1<<30 | 39, 0, 0, "x32 system call 39"},
		{390, 0, 0xffffffff81000100, "system call 390"},
		{5000, 0, 0xffffffff81000000, "system call 5000"},
	} {
		d := w.denial(tt.number, tt.state, tt.serving)
		k := Killing{Signal: "SIGSYS", Comm: "sh", PID: 7, denied: &d}
		if got, want := k.String(), "sh[7] was killed by the signal SIGSYS: seccomp has refused its "+tt.want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for arch, want := range map[string]string{
		"amd64": "__seccomp_filter(this_syscall, return == -1, $task->thread_info.status, *(unsigned long *)(0x1000 + this_syscall * 8))",
		"arm64": "__seccomp_filter(this_syscall, return == -1)",
	} {
		a := abis[arch]
		if spec, state, served := a.denied("return == -1", 0x1000); spec != want || state != "" && !strings.Contains(want, state) || served != "" && !strings.Contains(want, served) {
			t.Errorf("%s: %s, %s, %s", arch, spec, state, served)
		}
	}
}

// TestNameKills: the kernel delivers SIGKILL to each thread of a process that ends (get_signal in kernel/signal.c). What has ended
// it is what do_exit says next in any of its threads, and no signal where another thread has ended it.
func TestNameKills(t *testing.T) {
	const kill, term, segv = uint64(unix.SIGKILL), uint64(unix.SIGTERM), uint64(unix.SIGSEGV)
	for name, tt := range map[string]struct {
		signal signalSeen
		ends   []ending
		want   string
	}{
		"SIGTERM":        {signalSeen{number: kill}, []ending{{time: 12, pid: 1, tid: 2, signal: term}}, "by the signal SIGTERM"},
		"another thread": {signalSeen{number: kill}, []ending{{time: 12, pid: 1, tid: 3, signal: term}}, "by the signal SIGTERM"},
		"SIGKILL":        {signalSeen{number: kill}, []ending{{time: 12, pid: 1, tid: 2, signal: kill}}, "by the signal SIGKILL"},
		"a core dump":    {signalSeen{number: segv}, []ending{{time: 12, pid: 1, tid: 2, signal: segv}}, "by the signal SIGSEGV"},
		"exit":           {signalSeen{number: kill}, []ending{{time: 12, pid: 2, tid: 4, signal: term}, {time: 9, pid: 1, tid: 3, signal: term}}, "by the end of its thread"},
		"handled":        {signalSeen{number: term, handler: 0x401000}, []ending{{time: 12, pid: 1, tid: 2, signal: kill}}, "by the signal SIGTERM, for which it has a handler; the program sees EINTR"},
	} {
		tt.signal.time, tt.signal.pid, tt.signal.tid = 11, 1, 2
		w := watcher{seen: &Seen{Calls: []Failure{{Time: 10, PID: 1, TID: 2, Errno: restartSys}}}, signal: []signalSeen{tt.signal}, ends: tt.ends}
		w.assign()
		if got := w.seen.Cause(0, "amd64").Text; got != "interrupted "+tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
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

// TestChooseBringer: the kernel sends SIGPIPE and SIGXFSZ to whoever makes a call that it refuses (pipe_write in fs/pipe.c,
// generic_write_check_limits in fs/read_write.c), and then the process has failed by this call.
func TestChooseBringer(t *testing.T) {
	of := func(pid uint32, e unix.Errno) Failure {
		return Failure{PID: pid, Function: "__x64_sys_write", Errno: uint64(e), Params: []kernel.Field{}}
	}
	calls := []Failure{of(7, unix.EPIPE), of(7, unix.EFBIG), of(7, unix.EPIPE), of(7, unix.EBADF), of(8, unix.EPIPE)}
	for name, tt := range map[string]struct {
		signal   string
		calls    []Failure
		messages []Message
		want     int
		reason   string
		err      error
	}{
		"SIGPIPE":           {"SIGPIPE", calls, nil, 2, "yes[7] was killed by the signal SIGPIPE, which that call has brought", nil},
		"SIGXFSZ":           {"SIGXFSZ", calls, nil, 1, "yes[7] was killed by the signal SIGXFSZ, which that call has brought", nil},
		"another signal":    {"SIGTERM", calls, nil, 0, "", ErrKilled},
		"a part is written": {"SIGPIPE", calls[3:], nil, 0, "", ErrKilled},
		"named":             {"SIGPIPE", calls, []Message{{Time: 1, PID: 7, Text: "Bad file descriptor"}}, 3, `the command wrote "Bad file descriptor"`, nil},
	} {
		s := Seen{Calls: tt.calls, Messages: tt.messages, Killed: &Killing{Signal: tt.signal, Comm: "yes", PID: 7}}
		if got, reason, err := s.Choose(Wish{}); got != tt.want || reason != tt.reason || !errors.Is(err, tt.err) {
			t.Errorf("%s: call %d since %s, %v; want %d since %s, %v", name, got, reason, err, tt.want, tt.reason, tt.err)
		}
	}
}

// TestEndedBy: whatever call is chosen, the signal that has ended the command is told.
func TestEndedBy(t *testing.T) {
	calls := []Failure{{PID: 7, Errno: uint64(unix.EPIPE)}, {PID: 7, Errno: uint64(unix.ENOENT)}}
	for _, tt := range []struct {
		killed *Killing
		call   int
		want   string
	}{
		{nil, 1, ""},
		{&Killing{Signal: "SIGKILL", Comm: "sh", PID: 7}, 1, "sh[7] was killed by the signal SIGKILL"},
		{&Killing{Signal: "SIGPIPE", Comm: "sh", PID: 7}, 1, "sh[7] was killed by the signal SIGPIPE"},
		{&Killing{Signal: "SIGPIPE", Comm: "sh", PID: 7}, 0, "sh[7] was killed by the signal SIGPIPE, which that call has brought"},
		{&Killing{Signal: "SIGSYS", Comm: "sh", PID: 7, denied: &denial{number: 39}}, 1, "sh[7] was killed by the signal SIGSYS: seccomp has refused its system call 39"},
	} {
		if got := (&Seen{Calls: calls, Killed: tt.killed}).endedBy(tt.call); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.killed, got, tt.want)
		}
	}
}
