// SPDX-License-Identifier: Apache-2.0

package why

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// placeOf is a place whose functions all failed with EPERM, the outermost first.
func placeOf(asked []capability, names ...string) *Place {
	p := &Place{asked: asked}
	for _, n := range names {
		p.Chain = append(p.Chain, Link{Function: kernel.Function{Name: n}, Result: ^uint64(unix.EPERM - 1)})
	}
	return p
}

// TestCause: what asked for a capability has refused, not the check of it. Of modules of security it
// is the hook. capability.h and user_namespace.h say what the numbers mean.
func TestCause(t *testing.T) {
	admin, elsewhere, unknown := []capability{{21, 0xeffffffd, 0}}, []capability{{12, 4026532132, 1}}, []capability{{99, 0, 0}}
	for chain, tt := range map[string]struct {
		asked            []capability
		innermost, cause string
	}{
		"sys_a do_a": {nil, "do_a", ""},
		"sys_a do_a security_capable cap_capable":                                {admin, "do_a", "for want of the capability CAP_SYS_ADMIN"},
		"sys_a do_a capable cap_capable":                                         {[]capability{{2, 0, 0}, {1, 0, 0}}, "do_a", "for want of the capability CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE, asked for in this order"},
		"sys_a do_a cap_capable":                                                 {elsewhere, "do_a", "for want of the capability CAP_NET_ADMIN in the user namespace 4026532132, which is not the initial one"},
		"sys_a cap_task_setnice ns_capable_noaudit security_capable cap_capable": {unknown, "cap_task_setnice", "for want of the capability 99"},
		"sys_a capable cap_capable":                                              {nil, "sys_a", "for want of a capability"},
		"sys_a security_capable apparmor_capable":                                {nil, "sys_a", "refused by the security module AppArmor, in apparmor_capable"},
		"sys_a security_file_open hook_file_open check":                          {nil, "check", "refused by the security module Landlock, in hook_file_open"},
		"sys_a security_bpf selinux_bpf avc_has_perm":                            {nil, "avc_has_perm", "refused by the security module SELinux, in selinux_bpf"},
		"sys_a security_file_open":                                               {nil, "security_file_open", "refused by a security module that security_file_open asks"},
		"sys_a security_file_open something":                                     {nil, "something", ""},
		"sys_a hook_file_open":                                                   {nil, "hook_file_open", ""}, // of something else than a module
	} {
		p := placeOf(tt.asked, strings.Fields(chain)...)
		got := ""
		if c := p.cause(); c != nil {
			got = c.Text
		}
		if got != tt.cause || p.Innermost().Function.Name != tt.innermost {
			t.Errorf("%s: %q in %s, want %q in %s", chain, got, p.Innermost().Function.Name, tt.cause, tt.innermost)
		}
	}
	p := placeOf(admin, "sys_a", "do_a", "cap_capable")
	if p.vain = true; p.cause() != nil {
		t.Errorf("not decided by the capability: %+v", p.cause())
	}
	if n := len(capabilities); n != unix.CAP_LAST_CAP+1 || capabilities[unix.CAP_BPF] != "BPF" || capabilities[unix.CAP_SYS_PTRACE] != "SYS_PTRACE" {
		t.Errorf("%d names of capabilities: %q", n, capabilities)
	}
}

// TestAskedLastCause: what has asked for the capability may have returned no error (__check_sticky).
func TestAskedLastCause(t *testing.T) {
	for _, tt := range []struct {
		errno unix.Errno
		last  bool
		chain string
		want  string
	}{
		{unix.EPERM, true, "sys_unlink may_delete", "for want of the capability CAP_FOWNER"},
		{unix.EACCES, true, "sys_unlink may_delete", "for want of the capability CAP_FOWNER"},
		{unix.EROFS, true, "sys_unlink may_delete", ""},
		{unix.EPERM, false, "sys_unlink may_delete", ""}, // it has called others then
	} {
		p := placeOf([]capability{{3, 0, 0}}, strings.Fields(tt.chain)...)
		p.askedLast = tt.last
		for i := range p.Chain {
			p.Chain[i].Result = uint64(-int64(tt.errno))
		}
		got := ""
		if c := p.cause(); c != nil {
			got = c.Text
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	p := placeOf([]capability{{3, 0, 0}}, "sys_unlink", "may_delete", "other")
	p.askedLast, p.Chain[2].Result = true, ^uint64(unix.ENOENT-1)
	if c := p.cause(); c != nil {
		t.Errorf("what the innermost function has made its error of is another one: %+v", c)
	}
}

// TestUnanswered: a hook that no module answers has refused nothing (security_task_prctl of Linux 7.3).
func TestUnanswered(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{unix.ENOSYS: false, unix.EOPNOTSUPP: false, unix.EACCES: true} {
		p := placeOf(nil, "__do_sys_prctl", "security_task_prctl")
		p.Chain[1].Result = uint64(-int64(errno))
		if c := p.cause(); (c != nil) != want {
			t.Errorf("%v: %+v", errno, c)
		}
	}
}

// TestSignalCause: signal(7) says which calls are made again.
func TestSignalCause(t *testing.T) {
	const handler, restart = 0x401000, 0x10000000
	for _, tt := range []struct {
		errno uint64
		s     *signalSeen
		want  string
	}{
		{restartSys, &signalSeen{number: 10, handler: handler}, "interrupted by the signal SIGUSR1, for which it has a handler; the program sees EINTR"},
		{restartSys, &signalSeen{number: 10, handler: handler, flags: restart}, "interrupted by the signal SIGUSR1, for which it has a handler; then the kernel makes the call again"},
		{restartNoHand, &signalSeen{number: 14, handler: handler, flags: restart}, "interrupted by the signal SIGALRM, for which it has a handler; the program sees EINTR"},
		{restartNoIntr, &signalSeen{number: 34, handler: handler}, "interrupted by the signal 34, for which it has a handler; then the kernel makes the call again"},
		{restartSys, &signalSeen{number: 15}, "interrupted by the signal SIGTERM"},
		{uint64(unix.EINTR), &signalSeen{number: 14, handler: handler, flags: restart}, "interrupted by the signal SIGALRM, for which it has a handler; the program sees EINTR"},
		{restartSys, nil, "interrupted by a signal"},
	} {
		if got := signalCause(tt.errno, tt.s).Text; got != tt.want {
			t.Errorf("%d, %+v: %s, want %s", tt.errno, tt.s, got, tt.want)
		}
	}
	f := Failure{Errno: restartSys}
	if !names("read: Interrupted system call", &f) || names("ERESTARTSYS", &f) {
		t.Error("a program calls it EINTR")
	}
}

// TestFaultCause: an address belongs to the parameter that it lies nearest behind.
func TestFaultCause(t *testing.T) {
	f := Failure{Args: [words]uint64{3, 0x1000, 0x9000, 0x1000}, Params: []kernel.Field{{Name: "fd", Decl: "int"}, {Name: "to", Decl: "char *"}, {Name: "from", Decl: "const void *"}, {Name: "n", Decl: "size_t"}}}
	for addr, want := range map[uint64]string{
		0x1000:     "0x1000, where the parameter to points to",
		0x9010:     "0x9010, 16 bytes behind where the parameter from points to",
		0x8:        "0x8, which is where something leads that a parameter points to",
		0x70000000: "0x70000000, which is where something leads that a parameter points to",
	} {
		if got := (&fault{addr: addr}).cause(&f).Text; got != "a fault: the kernel cannot read or write the memory at "+want {
			t.Errorf("%#x: %s", addr, got)
		}
	}
}

// TestAssign: a denial belongs to the next call of its thread that ends with an error, a signal to
// the call before it.
func TestAssign(t *testing.T) {
	w := watcher{seen: &Seen{Calls: []Failure{{Time: 10, TID: 1, Number: 7}, {Time: 20, TID: 2, Number: 7}, {Time: 30, TID: 1, Number: 7}, {Time: 40, TID: 1, Number: 8, Errno: restartSys}}},
		denied: []denial{{time: 25, number: 7, tid: 1}, {time: 19, number: 7, tid: 2}, {time: 35, number: 9, tid: 1}}, signal: []signalSeen{{time: 50, tid: 1, number: 2}, {time: 45, tid: 2, number: 3}, {time: 41, tid: 1, number: 4}}}
	w.assign()
	for i, want := range []bool{false, true, true, false} {
		if w.seen.Calls[i].seccomp != want {
			t.Errorf("call %d: %v", i, !want)
		}
	}
	if s := w.seen.Calls[3].signal; s == nil || s.number != 4 {
		t.Errorf("signal %+v", s)
	}
}

// TestAssignEINTR: a call that returns EINTR itself, as accept with SO_RCVTIMEO, was interrupted by a signal if that comes at once.
func TestAssignEINTR(t *testing.T) {
	const eintr = uint64(unix.EINTR)
	one := Failure{Time: 10, TID: 1, Errno: eintr}
	for name, tt := range map[string]struct {
		calls  []Failure
		signal signalSeen
		want   string // "": it is looked for the function
	}{
		"at once":                {[]Failure{one}, signalSeen{time: 11, tid: 1, number: 15}, "interrupted by the signal SIGTERM"},
		"later":                  {[]Failure{one}, signalSeen{time: 11 + soon, tid: 1, number: 15}, ""},
		"before":                 {[]Failure{one}, signalSeen{time: 9, tid: 1, number: 15}, ""},
		"of another thread":      {[]Failure{one}, signalSeen{time: 11, tid: 2, number: 15}, ""},
		"behind another call":    {[]Failure{one, {Time: 20, TID: 1, Errno: 2}}, signalSeen{time: 21, tid: 1, number: 15}, ""},
		"behind another's call":  {[]Failure{one, {Time: 20, TID: 2, Errno: 2}}, signalSeen{time: 21, tid: 1, number: 15}, "interrupted by the signal SIGTERM"},
		"of a call with another": {[]Failure{{Time: 10, TID: 1, Errno: 2}}, signalSeen{time: 11, tid: 1, number: 15}, ""},
	} {
		w := watcher{seen: &Seen{Calls: tt.calls}, signal: []signalSeen{tt.signal}}
		w.assign()
		got := ""
		if c := w.seen.Cause(0, "amd64"); c != nil {
			got = c.Text
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestAssignSignals compares with the first signal behind each call, in calls and signals at random.
func TestAssignSignals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 100 {
		w := watcher{seen: &Seen{}}
		for i := range 40 {
			w.seen.Calls = append(w.seen.Calls, Failure{Time: uint64(i / 2), TID: random.Uint32N(4), Errno: []uint64{restartSys, 2}[random.IntN(2)]})
			w.signal = append(w.signal, signalSeen{time: uint64(random.IntN(25)), tid: random.Uint32N(4), number: uint64(i)})
		}
		w.assign()
		for i := range w.seen.Calls {
			f := &w.seen.Calls[i]
			var want *signalSeen
			for j := range w.signal {
				if s := &w.signal[j]; interrupted(f.Errno) && s.tid == f.TID && s.time >= f.Time && (want == nil || s.time < want.time) {
					want = s
				}
			}
			if f.signal != want {
				t.Fatalf("call %d, %+v: %+v, want %+v", i, f, f.signal, want)
			}
			if want != nil {
				found++
			}
		}
	}
	if found < 100 {
		t.Errorf("%d signals", found)
	}
}
