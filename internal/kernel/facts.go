// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// An Answer says whether something holds. The zero value is Unknown.
type Answer uint8

const (
	Unknown Answer = iota
	Yes
	No
)

// String returns "yes", "no" or "unknown".
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// A FactName says what a Fact is about.
type FactName string

// The facts, in the order in which tracing needs them.
const (
	FactPrivileges FactName = "privileges"
	FactLockdown   FactName = "no lockdown"
	FactBPF        FactName = "BPF system call"
	FactBTF        FactName = "BTF"
	FactEvents     FactName = "BPF tracing programs"
	FactFtrace     FactName = "ftrace"
	FactFentry     FactName = "fentry"
	FactKprobes    FactName = "kprobes"
	FactFprobe     FactName = "FPROBE"
	FactTracefs    FactName = "tracefs"
	FactKallsyms   FactName = "symbols"
	FactAddresses  FactName = "symbol addresses"
	FactModuleBTF  FactName = "BTF of modules"
	FactJIT        FactName = "BPF JIT"
	FactPerf       FactName = "perf_event_paranoid"
	FactUnprivBPF  FactName = "unprivileged_bpf_disabled"
	FactRelease    FactName = "release"
	FactArch       FactName = "architecture"
)

// builtIn says how to recognise what a kernel was built with: options of its configuration,
// all of which must be set, and a function that only such a kernel has.
var builtIn = map[FactName]struct {
	options  []string
	function string
}{
	FactBPF:     {[]string{"BPF_SYSCALL"}, "bpf_map_inc"},
	FactEvents:  {[]string{"BPF_EVENTS"}, "trace_call_bpf"},
	FactFtrace:  {[]string{"FUNCTION_TRACER", "DYNAMIC_FTRACE"}, "register_ftrace_function"},
	FactFentry:  {[]string{"DYNAMIC_FTRACE_WITH_DIRECT_CALLS", "BPF_JIT"}, "bpf_trampoline_link_prog"},
	FactKprobes: {[]string{"KPROBES", "KPROBE_EVENTS"}, "register_kprobe"},
	FactFprobe:  {[]string{"FPROBE"}, "register_fprobe"},
}

// A Fact is one thing that files tell about a kernel. Yes is the answer that tracing wants.
type Fact struct {
	Name   FactName
	Answer Answer
	Value  string // what was found: "6.12.111", "integrity", "2"
	Why    string // the evidence, or why the answer is Unknown
	Do     string // what would turn it into a Yes
}

// Facts are all facts about a kernel.
type Facts []Fact

// Obstacle returns the first fact that makes tracing impossible. An unknown fact is no
// obstacle: trying will tell. It reads no more than necessary; kallsyms is not read on a
// kernel that can be traced.
func (v *View) Obstacle(p Privileges) (Fact, bool) {
	return obstacle(func(name FactName) Fact { return v.fact(name, p) })
}

// obstacle is Obstacle, with the facts behind a function.
func obstacle(get func(FactName) Fact) (Fact, bool) {
	for _, name := range []FactName{FactBPF, FactBTF, FactEvents, FactPrivileges, FactLockdown} {
		if fact := get(name); fact.Answer == No {
			return fact, true
		}
	}
	fentry := get(FactFentry)
	if fentry.Answer != No {
		return Fact{}, false
	}
	if kprobes := get(FactKprobes); kprobes.Answer == No {
		fentry.Name += " or kprobes"
		fentry.Why += "; " + kprobes.Why
		return fentry, true
	}
	return Fact{}, false
}

// feature finds something that is builtIn. If the configuration cannot be read, the
// function is the evidence.
func (v *View) feature(name FactName) Fact {
	f := Fact{Name: name}
	options, function := builtIn[name].options, builtIn[name].function
	if c := v.config(); c.err == nil {
		for _, o := range options {
			if c.options[o] == "" {
				f.Answer, f.Why = No, fmt.Sprintf("CONFIG_%s is not set in /%s", o, c.file)
				f.Do = "use a kernel built with CONFIG_" + o
				return f
			}
		}
		f.Answer, f.Why = Yes, fmt.Sprintf("CONFIG_%s in /%s", strings.Join(options, ", CONFIG_"), c.file)
		return f
	}
	has, err := v.hasFunction(function)
	switch {
	case err != nil:
		f.Why = err.Error()
	case has:
		f.Answer, f.Why = Yes, "the kernel has "+function
	default:
		f.Answer, f.Why = No, "the kernel has no "+function
		f.Do = "use a kernel built with CONFIG_" + strings.Join(options, ", CONFIG_")
	}
	return f
}

// findFeatures looks the functions of all features up in BTF: to look for one takes as long
// as for all.
func (v *View) findFeatures() map[string]bool {
	info, err := v.vmlinux()
	if err != nil {
		return nil
	}
	var names []string
	for _, b := range builtIn {
		names = append(names, b.function)
	}
	return info.raw.functionsAmong(names)
}

// hasFunction reports whether vmlinux has the function of a feature. It asks BTF first, which reads twenty
// times faster than kallsyms but does not have all functions.
func (v *View) hasFunction(name string) (bool, error) {
	if v.features()[name] {
		return true, nil
	}
	t, err := v.symbols()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(t.symbols, func(s symbol) bool { return t.name(&s) == name && s.module == 0 }), nil
}

// exists reports whether a file exists; Unknown if that cannot be seen.
func (v *View) exists(file string) Answer {
	if v.root == nil {
		return Unknown
	}
	_, err := fs.Stat(v.root, file)
	switch {
	case err == nil:
		return Yes
	case errors.Is(err, fs.ErrNotExist):
		return No
	}
	return Unknown
}

// String returns the fact as a line of text.
func (f Fact) String() string {
	text := string(f.Name) + ": " + cmp.Or(f.Value, f.Answer.String())
	if f.Why != "" {
		text += " (" + f.Why + ")"
	}
	return text
}
