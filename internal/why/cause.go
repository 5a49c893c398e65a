// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/seccomp"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Cause is what made an error that the function which returned it first has not decided by
// itself.
type Cause struct {
	Kind string `json:"kind"` // one of those below
	Text string `json:"text"`
	// Capability is the name of the one that was wanting; UserNamespace where, if that is not the
	// initial one.
	Capability    string `json:"capability,omitempty"`
	UserNamespace uint64 `json:"user_namespace,omitempty"`
	// Capabilities are all that were asked for in vain, if they are more than one. Capability is the last.
	Capabilities []string `json:"capabilities,omitempty"`
	Module       string   `json:"module,omitempty"` // of security: "Landlock"
	Signal       string   `json:"signal,omitempty"`
	// Address could not be read or written, which a parameter holds, if one does.
	Address   string `json:"address,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	// Filter of seccomp has refused the call, of those in the order in which they were set.
	// Instruction of it, from 0 on, has returned Action, and Rule is the comparison that led there.
	Filter      string `json:"filter,omitempty"`
	Instruction *int   `json:"instruction,omitempty"`
	Action      string `json:"action,omitempty"`
	Rule        string `json:"rule,omitempty"`
}

// Kinds of causes.
const (
	causeSeccomp    = "seccomp"
	causeSignal     = "signal"
	causeKilled     = "killed"
	causeFault      = "fault"
	causeCapability = "capability"
	causeModule     = "security module"
)

// Handlers of signals that are none.
const (
	defaultHandler  = 0
	ignoringHandler = 1
)

// Cause returns what made the error of a call, if the first run tells; else nil. arch is the
// kernel's, as Go calls it.
func (s *Seen) Cause(chosen int, arch string) *Cause {
	f := &s.Calls[chosen]
	switch {
	case f.seccomp:
		return seccompCause(f, arch)
	case interrupted(f.Errno), f.signal != nil:
		return signalCause(f.Errno, f.signal)
	}
	return nil
}

// signalCause says by what a call was interrupted. A program sees EINTR, or nothing of it.
func signalCause(errno uint64, s *signalSeen) *Cause {
	c := &Cause{Kind: causeSignal, Text: "interrupted by a signal"}
	if s == nil {
		return c
	}
	if s.number == 0 {
		c.Text = "interrupted by the end of its thread"
		return c
	}
	c.Signal = signalName(s.number)
	c.Text = "interrupted by the signal " + c.Signal
	const restart = 0x10000000 // SA_RESTART
	switch {
	case s.handler == defaultHandler || s.handler == ignoringHandler:
	case errno == restartNoIntr, errno == restartSys && s.flags&restart != 0:
		c.Text += ", for which it has a handler; then the kernel makes the call again"
	default:
		c.Text += ", for which it has a handler; the program sees EINTR"
	}
	return c
}

// signalName returns the name of a signal, or its number.
func signalName(number uint64) string {
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		return name
	}
	return fmt.Sprintf("%d", number)
}

// Cause returns it as what ended the command.
func (k *Killing) Cause() *Cause {
	c := &Cause{Kind: causeKilled, Signal: k.Signal, Text: k.String()}
	switch {
	case k.denied != nil:
	case bringers[k.Signal] != 0:
		c.Text += ": no system call of it was seen to fail with " + unix.ErrnoName(bringers[k.Signal])
	default:
		c.Text += ": no system call was refused for it"
	}
	return c
}

// String says who was killed: sh[155] was killed by the signal SIGKILL. Of one that seccomp has ended it says for what.
func (k *Killing) String() string {
	text := fmt.Sprintf("%s[%s] was killed by the signal %s", terminal.Name(k.Comm), output.AppendPID(nil, k.Inner, k.PID), k.Signal)
	if k.denied != nil {
		text += ": seccomp has refused its " + k.denied.name()
	}
	return text
}

// bringers are the errors of system calls for which the kernel sends a signal to whoever makes them, by its name. A
// write to a pipe that has written a part of it brings SIGPIPE, too, and returns no error (fs/pipe.c).
var bringers = map[string]unix.Errno{"SIGPIPE": unix.EPIPE, "SIGXFSZ": unix.EFBIG}

// bringer returns the index of the call for which the kernel has sent the signal that has killed a process; -1: none is known.
func (s *Seen) bringer() int {
	for i := range slices.Backward(s.Calls) {
		if f := &s.Calls[i]; f.PID == s.Killed.PID && f.Errno == uint64(bringers[s.Killed.Signal]) {
			return i
		}
	}
	return -1
}

// endedBy says which signal has ended the command, and whether a call has brought it; "" if none has.
func (s *Seen) endedBy(call int) string {
	switch {
	case s.Killed == nil:
		return ""
	case s.bringer() == call:
		return s.Killed.String() + ", which that call has brought"
	}
	return s.Killed.String()
}

// A capability is one that a task has not got.
type capability struct {
	number    uint64
	namespace uint64 // its inode number
	level     uint64 // 0: the initial one
}

// capabilities are their names, by number.
var capabilities = strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE")

// name returns the name of a capability.
func (c *capability) name() string {
	if c.number < uint64(len(capabilities)) {
		return "CAP_" + capabilities[c.number]
	}
	return fmt.Sprintf("%d", c.number)
}

// capabilityCheck is the function that looks whether a task has a capability.
const capabilityCheck = "cap_capable"

// checks are functions that do no more than to ask for a capability. What calls the outermost of
// them is what has refused.
var checks = []string{"*capable*", "has_*capability*"}

// securityModules are the modules of security, by what the names of their hooks begin with.
var securityModules = []struct{ prefix, name string }{
	{"apparmor_", "AppArmor"}, {"selinux_", "SELinux"}, {"smack_", "Smack"}, {"tomoyo_", "TOMOYO"}, {"landlock_", "Landlock"}, {"hook_", "Landlock"}, {"yama_", "Yama"},
	{"bpf_lsm_", "BPF"}, {"lockdown_", "Lockdown"}, {"safesetid_", "SafeSetID"}, {"loadpin_", "LoadPin"}, {"ima_", "IMA"}, {"evm_", "EVM"}, {"ipe_", "IPE"}, {"integrity_", "Integrity"}}

// moduleOf returns the module of security that a hook belongs to; "" if it is not known.
func moduleOf(hook string) string {
	for _, m := range securityModules {
		if strings.HasPrefix(hook, m.prefix) {
			return m.name
		}
	}
	return ""
}

// isCheck reports whether a function asks for a capability.
func isCheck(name string) bool { return matches(checks, name) && moduleOf(name) == "" }

// cause says what the chain of functions tells of the error; nil if it is nothing beside the
// functions.
func (p *Place) cause() *Cause {
	hooked := ""
	for i := range p.Chain {
		l := &p.Chain[i]
		name := l.Function.Name
		switch {
		case name == capabilityCheck && p.vain:
			return nil
		case name == capabilityCheck:
			return capabilityCause(p.asked)
		case hooked != "" && moduleOf(name) != "":
			m := moduleOf(name)
			return &Cause{Kind: causeModule, Module: m, Text: fmt.Sprintf("refused by the security module %s, in %s", m, terminal.Name(l.Function.String()))}
		case strings.HasPrefix(name, "security_"):
			hooked = name
		}
	}
	last := &p.Chain[len(p.Chain)-1]
	if p.askedLast && !p.vain && p.Innermost() == last && last.denied() {
		return capabilityCause(p.asked)
	}
	if hooked == "" || isCheck(hooked) || last.Function.Name != hooked || last.unanswered() {
		return nil
	}
	return &Cause{Kind: causeModule, Text: fmt.Sprintf("refused by a security module that %s asks", hooked)}
}

// denied reports whether the error is one of those for want of a capability. What has asked for it may have
// returned no error: __check_sticky returns 1.
func (l *Link) denied() bool {
	n := unix.Errno(-int32(l.Result))
	return n == unix.EPERM || n == unix.EACCES
}

// unanswered reports whether a hook says that no module serves what it was asked
// (include/linux/lsm_hook_defs.h), as security_task_prctl says to most calls: that has refused nothing.
func (l *Link) unanswered() bool {
	n := unix.Errno(-int32(l.Result))
	return n == unix.ENOSYS || n == unix.EOPNOTSUPP
}

// capabilityCause says which capabilities were wanting. One that was asked for before the last one may
// have done as well.
func capabilityCause(asked []capability) *Cause {
	if len(asked) == 0 {
		return &Cause{Kind: causeCapability, Text: "for want of a capability"}
	}
	last := &asked[len(asked)-1]
	out := &Cause{Kind: causeCapability, Capability: last.name(), Text: "for want of the capability "}
	for i := range asked {
		if i > 0 {
			out.Text += " or "
		}
		out.Text += asked[i].name()
		if len(asked) > 1 {
			out.Capabilities = append(out.Capabilities, asked[i].name())
		}
	}
	if last.level > 0 {
		out.UserNamespace = last.namespace
		out.Text += fmt.Sprintf(" in the user namespace %d, which is not the initial one", last.namespace)
	}
	if len(asked) > 1 {
		out.Text += ", asked for in this order"
	}
	return out
}

// A fault is an address of the process that the kernel could not read or write.
type fault struct {
	time uint64
	addr uint64
}

// nearby is how far behind the address in a parameter an address may lie that belongs to it.
const nearby = 1 << 16

// cause says which parameter of a call led to the fault.
func (x *fault) cause(f *Failure) *Cause {
	c := &Cause{Kind: causeFault, Address: fmt.Sprintf("%#x", x.addr)}
	c.Text = fmt.Sprintf("a fault: the kernel cannot read or write the memory at %s", c.Address)
	best := uint64(nearby)
	for i := range min(len(f.Params), words) {
		if behind := x.addr - f.Args[i]; strings.HasSuffix(f.Params[i].Decl, "*") && x.addr >= f.Args[i] && behind < best {
			best, c.Parameter = behind, terminal.Name(f.Params[i].Name)
		}
	}
	switch {
	case c.Parameter == "":
		c.Text += ", which is where something leads that a parameter points to"
	case best == 0:
		c.Text += ", where the parameter " + c.Parameter + " points to"
	default:
		c.Text += fmt.Sprintf(", %s behind where the parameter %s points to", plural.Of(best, "byte{s}"), c.Parameter)
	}
	return c
}

// auditArchs are the numbers by which filters know architectures, from linux/audit.h.
var auditArchs = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// seccompCause says which rule has refused a call, if its filters tell.
func seccompCause(f *Failure, arch string) *Cause {
	c := &Cause{Kind: causeSeccomp, Text: "refused by seccomp"}
	if f.filters == nil {
		c.Text += "; by which rule is not known: filters are read when their thread ends"
		return c
	}
	if len(f.filters.list) == 0 {
		c.Text += "; by which rule is not known: the kernel has not kept the filter (CONFIG_CHECKPOINT_RESTORE)"
		return c
	}
	audit := auditArchs[arch]
	if f.foreign == call32 {
		audit = abis[arch].compat.audit
	}
	d := &seccomp.Data{Number: uint32(f.Number), Arch: audit, IP: f.ip, Args: f.Args}
	best, which := seccomp.Verdict{Action: unix.SECCOMP_RET_ALLOW}, -1
	for i, filter := range f.filters.list {
		v, err := seccomp.Run(filter, d)
		if err != nil { // it may be what has refused
			c.Text += "; by which rule is not known: not all of a filter is read, or it cannot be executed"
			return c
		}
		if seccomp.Compare(v.Action, best.Action) < 0 {
			best, which = v, i
		}
	}
	if which < 0 || !refuses(best.Action, f.Errno) {
		c.Text += "; by which rule is not known: the filters that were read do not refuse it so"
		return c
	}
	// The newest filter is the last one that was set.
	total := len(f.filters.list)
	c.Filter, c.Instruction, c.Action = fmt.Sprintf("%d of %d", total-which, total), &best.At, seccomp.ActionName(best.Action)
	name := "filter " + c.Filter
	switch {
	case f.filters.more && which == 0:
		c.Filter, name = "the newest", "the newest filter"
	case f.filters.more:
		c.Filter = fmt.Sprintf("%d before the newest", which)
		name = "filter " + c.Filter
	}
	c.Text += fmt.Sprintf(": %s returns %s at instruction %d", name, c.Action, best.At)
	if best.Decided != nil {
		c.Rule = best.Decided.String()
		c.Text += fmt.Sprintf(", since %s at %d", c.Rule, best.Decided.At)
	}
	return c
}

// refuses reports whether a call that a filter has returned this for can have ended with an error.
func refuses(action uint32, errno uint64) bool {
	switch action & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ERRNO:
		return min(uint64(action&unix.SECCOMP_RET_DATA), uint64(bpf.MaxErrno)) == errno // the kernel caps it, in __seccomp_filter
	case unix.SECCOMP_RET_TRAP, unix.SECCOMP_RET_TRACE, unix.SECCOMP_RET_USER_NOTIF:
		return true
	}
	return false
}
