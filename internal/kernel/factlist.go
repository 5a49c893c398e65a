// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/plural"
)

// factSources says how to find each fact, in the order of their names in facts.go. It is
// never changed.
var factSources = [...]struct {
	name FactName
	find func(*View, Privileges) Fact // nil for what a kernel is built with or without; see builtIn
}{
	{FactPrivileges, func(_ *View, p Privileges) Fact { return privilegesFact(p) }},
	{FactLockdown, alone((*View).lockdownFact)},
	{FactBPF, nil},
	{FactBTF, alone((*View).btfFact)},
	{FactEvents, nil},
	{FactFtrace, alone((*View).ftraceFact)},
	{FactFentry, alone((*View).fentryFact)},
	{FactKprobes, alone((*View).kprobesFact)},
	{FactFprobe, nil},
	{FactTracefs, alone((*View).tracefsFact)},
	{FactKallsyms, alone((*View).kallsymsFact)},
	{FactAddresses, alone((*View).addressesFact)},
	{FactModuleBTF, alone((*View).moduleFact)},
	{FactJIT, alone((*View).jitFact)},
	{FactPerf, func(v *View, p Privileges) Fact {
		return v.settingFact(FactPerf, "proc/sys/kernel/perf_event_paranoid", p.has(unix.CAP_PERFMON) || p.has(unix.CAP_SYS_ADMIN), 1)
	}},
	{FactUnprivBPF, func(v *View, p Privileges) Fact {
		return v.settingFact(FactUnprivBPF, "proc/sys/kernel/unprivileged_bpf_disabled", p.has(unix.CAP_BPF) || p.has(unix.CAP_SYS_ADMIN), 0)
	}},
	{FactRelease, alone((*View).releaseFact)},
	{FactArch, func(v *View, _ Privileges) Fact { return Fact{Name: FactArch, Answer: Yes, Value: v.Arch()} }},
}

// alone adapts a fact that does not depend on privileges.
func alone(find func(*View) Fact) func(*View, Privileges) Fact {
	return func(v *View, _ Privileges) Fact { return find(v) }
}

// Facts returns what files tell about the kernel to a process with privileges p.
func (v *View) Facts(p Privileges) Facts {
	facts := make(Facts, 0, len(factSources))
	for i := range factSources {
		facts = append(facts, v.fact(factSources[i].name, p))
	}
	return facts
}

// fact finds out one fact.
func (v *View) fact(name FactName, p Privileges) Fact {
	for _, source := range factSources {
		switch {
		case source.name != name:
		case source.find == nil:
			return v.feature(name)
		default:
			return source.find(v, p)
		}
	}
	return Fact{Name: name}
}

// privilegesFact reports whether the process may load and attach tracing programs.
func privilegesFact(p Privileges) Fact {
	f := Fact{Name: FactPrivileges, Answer: Yes}
	switch {
	case p.UID == 0 && p.tracing():
		f.Value = "root"
	case p.tracing():
		f.Value = "capabilities"
	case p.contained:
		f.Answer, f.Value, f.Why = No, "a user namespace", "capabilities in a user namespace let nothing be traced"
		f.Do = "run outside of the container"
	case p.UID == 0:
		f.Answer, f.Value = No, "root without capabilities"
		f.Why = "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, are missing: a container?"
		f.Do = "run outside of the container, or give it these capabilities"
	default:
		f.Answer, f.Value = No, "uid "+strconv.Itoa(p.UID)
		f.Why, f.Do = "tracing needs CAP_BPF and CAP_PERFMON", "run as root, or give ksnoop these capabilities; some features need more"
	}
	return f
}

// lockdownFact reports lockdown. Only the mode "confidentiality" forbids kprobes and
// reading kernel memory from BPF (LOCKDOWN_KPROBES and LOCKDOWN_BPF_READ_KERNEL in
// security/lockdown).
func (v *View) lockdownFact() Fact {
	f := Fact{Name: FactLockdown}
	text, err := v.line("sys/kernel/security/lockdown")
	if errors.Is(err, fs.ErrNotExist) {
		if c := v.config(); c.err == nil && c.options["SECURITY_LOCKDOWN_LSM"] == "" {
			f.Answer, f.Value, f.Why = Yes, "none", "the kernel has no lockdown"
			return f
		}
		f.Why, f.Do = "/sys/kernel/security/lockdown is missing", "mount securityfs on /sys/kernel/security to see"
		return f
	}
	if err != nil {
		f.Why = err.Error()
		return f
	}
	_, mode, _ := strings.Cut(text, "[")
	mode, _, ok := strings.Cut(mode, "]")
	if !ok {
		f.Why = "/sys/kernel/security/lockdown reads " + strconv.Quote(text)
		return f
	}
	f.Answer, f.Value = Yes, mode
	if mode == "confidentiality" {
		f.Answer, f.Why = No, "lockdown forbids to read kernel memory"
		f.Do = "boot without lockdown=confidentiality"
	}
	return f
}

// btfFact reports whether the kernel shows its types.
func (v *View) btfFact() Fact {
	f := Fact{Name: FactBTF}
	info, err := v.vmlinux()
	if err == nil {
		f.Answer, f.Value = Yes, fmt.Sprintf("%d types", info.raw.count-1)
		return f
	}
	f.Why = err.Error()
	if !errors.Is(err, fs.ErrPermission) {
		f.Answer, f.Why = No, fmt.Sprintf("/%s: %v", vmlinuxFile, reason(err))
		f.Do = noTypes
	}
	return f
}

// switches are what whoever administers the machine may switch off. It is never changed.
var switches = map[FactName]struct{ file, why, do string }{
	FactFtrace:  {"proc/sys/kernel/ftrace_enabled", "ftrace_enabled is 0", "sysctl kernel.ftrace_enabled=1"},
	FactKprobes: {"sys/kernel/debug/kprobes/enabled", "/sys/kernel/debug/kprobes/enabled is 0", "write 1 to /sys/kernel/debug/kprobes/enabled"},
}

// SwitchedOff reports whether ftrace or kprobes are switched off, so that what is attached sees nothing. The kernel itself switches ftrace
// off for good after a fault of its own (ftrace_kill), and then says ENODEV.
func (v *View) SwitchedOff(name FactName) (Fact, bool) {
	s := switches[name]
	value, err := v.line(s.file)
	if name == FactFtrace && errors.Is(err, unix.ENODEV) {
		return Fact{Name: name, Answer: No, Value: "dead", Why: "the kernel has switched it off after a fault of its own: see dmesg", Do: "boot again"}, true
	}
	return Fact{Name: name, Answer: No, Value: "off", Why: s.why, Do: s.do}, err == nil && value == "0"
}

func (v *View) ftraceFact() Fact {
	if f, off := v.SwitchedOff(FactFtrace); off {
		return f
	}
	return v.feature(FactFtrace)
}

// fentryFact reports direct trampolines, which take the place of ftrace's hook.
func (v *View) fentryFact() Fact {
	if ftrace := v.ftraceFact(); ftrace.Answer == No {
		ftrace.Name = FactFentry
		return ftrace
	}
	if events := v.feature(FactEvents); events.Answer == No {
		events.Name = FactFentry
		return events
	}
	return v.feature(FactFentry)
}

// kprobesFact reports whether the kernel has kprobes and they are switched on.
func (v *View) kprobesFact() Fact {
	f, off := v.SwitchedOff(FactKprobes)
	if off {
		return f
	}
	f = Fact{Name: FactKprobes}
	// Everybody can read this. It only exists with CONFIG_KPROBE_EVENTS.
	const pmu = "sys/bus/event_source/devices/kprobe"
	if v.exists(pmu) == Yes {
		f.Answer, f.Why = Yes, "/"+pmu
		return f
	}
	return v.feature(FactKprobes)
}

// tracefsFact reports whether tracefs is mounted and can be read.
func (v *View) tracefsFact() Fact {
	f := Fact{Name: FactTracefs}
	const file = "trace_clock" // absent if nothing is mounted
	for _, dir := range []string{tracefs, tracefsOld} {
		switch v.exists(dir + "/" + file) {
		case Yes:
			f.Answer, f.Value = Yes, "/"+dir
			return f
		case Unknown:
			f.Why, f.Do = "/"+dir+" cannot be read", "run as root"
			return f
		}
	}
	f.Answer, f.Why = No, "nothing is mounted on /"+tracefs
	f.Do = mountTracefs
	return f
}

// kallsymsFact reports whether the kernel lists its symbols.
func (v *View) kallsymsFact() Fact {
	f := Fact{Name: FactKallsyms}
	t, err := v.symbols()
	if err != nil {
		f.Answer, f.Why, f.Do = No, err.Error(), "use a kernel built with CONFIG_KALLSYMS"
		return f
	}
	f.Answer, f.Value = Yes, fmt.Sprintf("%d, those of %s included", len(t.symbols), plural.Of(len(t.loaded()), "module{s}"))
	return f
}

// addressesFact reports whether the list of symbols has addresses for this process.
func (v *View) addressesFact() Fact {
	f := Fact{Name: FactAddresses, Answer: Yes}
	restrict, _ := v.line("proc/sys/kernel/kptr_restrict")
	if restrict != "" {
		f.Value = "kptr_restrict " + restrict
	}
	if err := v.Symbols(); err != nil {
		f.Answer, f.Why, f.Do = No, err.Error(), "run as root"
		var a *accessError
		if errors.As(err, &a) && a.Need != "" {
			f.Why, f.Do = fmt.Sprintf("/%s: %v", a.File, reason(a.Err)), a.Need
		}
	}
	return f
}

// moduleFact reports how many of the loaded modules have BTF.
func (v *View) moduleFact() Fact {
	f := Fact{Name: FactModuleBTF, Answer: Yes}
	names, err := v.modules()
	if err != nil {
		f.Answer, f.Why = No, err.Error()
		return f
	}
	f.Value = plural.Of(len(names), "module{s}")
	if t, err := v.symbols(); err == nil {
		loaded := t.loaded()
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(loaded, name) })
		f.Value = fmt.Sprintf("%d of %s", len(names), plural.Of(len(loaded), "module{s}"))
	}
	return f
}

// jitFact reports whether BPF programs are compiled.
func (v *View) jitFact() Fact {
	f := Fact{Name: FactJIT}
	value, err := v.line("proc/sys/net/core/bpf_jit_enable")
	switch {
	case err == nil && value != "0":
		f.Answer, f.Value = Yes, value
	case err == nil:
		f.Answer, f.Value, f.Why, f.Do = No, "0", "programs are interpreted", "sysctl net.core.bpf_jit_enable=1"
	case v.config().options["BPF_JIT_ALWAYS_ON"] == "y":
		f.Answer, f.Why = Yes, "CONFIG_BPF_JIT_ALWAYS_ON"
	default:
		f.Why = err.Error()
	}
	return f
}

// settingFact reports a sysctl that keeps unprivileged processes out if it is above limit.
func (v *View) settingFact(name FactName, file string, privileged bool, limit int) Fact {
	f := Fact{Name: name}
	text, err := v.line(file)
	if err != nil {
		f.Why = err.Error()
		return f
	}
	value, err := strconv.Atoi(text)
	f.Value = text
	switch {
	case err != nil:
		f.Why = "not a number"
	case value <= limit:
		f.Answer = Yes
	case privileged:
		f.Answer, f.Why = Yes, "does not hold for this process"
	default:
		f.Answer, f.Why, f.Do = No, "the kernel refuses it to this process", "run as root"
	}
	return f
}

// The oldest release that is tested.
const testedMajor, testedMinor = 6, 1

// Oldest returns the oldest release with everything that any request needs of BPF, on arm64 or amd64. A test in package attach
// compares it with the programs.
func Oldest(arch string) (major, minor int) {
	if arch == "arm64" {
		return 5, 18
	}
	return 5, 12
}

// Tested reports whether the kernel is at least as new as the oldest tested one. A kernel
// that does not tell its release counts as new.
func (v *View) Tested() bool { return v.AtLeast(testedMajor, testedMinor) }

// AtLeast reports whether the kernel is not known to be older than a release.
func (v *View) AtLeast(major, minor int) bool {
	release, _ := v.Release()
	return !older(release, major, minor)
}

// Since reports whether the kernel is known to be a release or a newer one.
func (v *View) Since(major, minor int) bool {
	release, _ := v.Release()
	_, _, ok := version(release)
	return ok && !older(release, major, minor)
}

func older(release string, major, minor int) bool {
	is, sub, ok := version(release)
	return ok && (is < major || is == major && sub < minor)
}

// releaseFact reports whether the kernel is at least as new as every request needs.
func (v *View) releaseFact() Fact {
	f := Fact{Name: FactRelease, Answer: Yes}
	release, err := v.Release()
	if err != nil {
		f.Answer, f.Why = Unknown, err.Error()
	}
	f.Value = release
	switch major, minor := Oldest(v.Arch()); {
	case older(release, major, minor):
		f.Answer, f.Why, f.Do = No, fmt.Sprintf("older than Linux %d.%d", major, minor), "use a newer kernel"
	case older(release, testedMajor, testedMinor):
		f.Why = fmt.Sprintf("older than Linux %d.%d, the oldest that is tested", testedMajor, testedMinor)
	}
	return f
}

// version returns the first two numbers of a release such as "6.12.111+deb12".
func version(release string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return major, minor, n == 2
}
