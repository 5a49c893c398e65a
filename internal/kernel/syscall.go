// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Syscall is a system call.
type Syscall struct {
	Name   string
	Func   Function // receives the saved registers of user space
	Params []Field  // nil if unknown
}

// syscallPrefixes are the prefixes of functions that serve 64-bit programs.
var syscallPrefixes = map[string]string{"amd64": "__x64_sys_", "arm64": "__arm64_sys_"}

// Syscalls returns the system calls whose names match a glob, sorted. Their parameters come
// from their tracepoints; without CONFIG_FTRACE_SYSCALLS they are unknown. No match is not
// an error.
func (v *View) Syscalls(pattern, arch string) ([]Syscall, error) {
	prefix, ok := syscallPrefixes[arch]
	if !ok {
		return nil, errors.New("no system calls are known of " + arch)
	}
	t, err := v.symbols()
	if err != nil {
		return nil, err
	}
	var funcs []Function
	for i := range t.symbols {
		s := &t.symbols[i]
		if name, ok := strings.CutPrefix(t.name(s), prefix); ok && s.text() && glob.Match(pattern, name) && name != "ni_syscall" {
			funcs = append(funcs, Function{Name: t.name(s), Module: t.module(s), Addr: s.addr})
		}
	}
	slices.SortFunc(funcs, compare)
	if err := v.addTypes(t, funcs); err != nil {
		return nil, err
	}
	calls := make([]Syscall, 0, len(funcs))
	for _, f := range funcs {
		name := strings.TrimPrefix(f.Name, prefix)
		fields, err := v.syscallFormat(name)
		if errors.Is(err, fs.ErrNotExist) {
			_, err2 := v.readTracefs(eventsDir) // did this one fail, or is there no tracefs?
			if err2 != nil {
				return nil, err2
			}
		} else if err != nil {
			return nil, err
		}
		if fields == nil && err == nil {
			fields = []Field{} // it has no parameters
		}
		calls = append(calls, Syscall{name, f, fields})
	}
	return calls, nil
}

// syscallFormat returns the fields of a system call's tracepoint that are its parameters. Linux 7
// has the strings that they point to behind them.
func (v *View) syscallFormat(name string) ([]Field, error) {
	fields, err := v.format("syscalls", "sys_enter_"+name)
	return slices.DeleteFunc(fields, func(f Field) bool { return f.Located || f.RelLocated }), err
}

// SyscallParams returns the parameters of the system call that a function serves. Nil means
// that it serves none, or that they are unknown.
func (v *View) SyscallParams(function, arch string) []Field {
	prefix, ok := syscallPrefixes[arch]
	if !ok {
		return nil
	}
	name, ok := strings.CutPrefix(function, prefix)
	if !ok {
		return nil
	}
	return v.SyscallFields(name)
}

// SyscallParamsAt is SyscallParams for the function at an address. On amd64 one that serves a system call without parameters has
// several names, __do_sys_getppid among them, and Symbol returns any of them.
func (v *View) SyscallParamsAt(addr uint64, arch string) []Field {
	t, err := v.symbols()
	if err != nil {
		return nil
	}
	for _, i := range t.at(addr) {
		if params := v.SyscallParams(t.name(&t.symbols[i]), arch); params != nil {
			return params
		}
	}
	return nil
}

// SyscallNames returns the names of all system calls.
func (v *View) SyscallNames(arch string) []string {
	t, err := v.symbols()
	if err != nil {
		return nil
	}
	var names []string
	for i := range t.symbols {
		s := &t.symbols[i]
		if name, ok := strings.CutPrefix(t.name(s), syscallPrefixes[arch]); ok && s.text() {
			names = append(names, name)
		}
	}
	return names
}

// HasSyscall reports whether a system call exists, without reading its parameters.
func (v *View) HasSyscall(name, arch string) bool {
	prefix, ok := syscallPrefixes[arch]
	if !ok || glob.Is(name) {
		return false
	}
	found, err := v.exact(prefix+name, "")
	return err == nil && len(found) > 0
}
