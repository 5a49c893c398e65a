// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// A Function is a function of the kernel.
type Function struct {
	Name   string    // symbol as in kallsyms: "tcp_v4_rcv", "foo.isra.0"
	Module string    // "" for vmlinux; for what a BPF program stands here, see Program
	Addr   uint64    // 0 if unknown: no root, known from BTF only, not located
	Type   *btf.Func // nil when BTF has none

	// Namesakes says that other symbols, of functions or data, have the same name and
	// module. Only the address then tells which is meant.
	Namesakes bool
	// Shared says that symbols in other modules have the same name. The kernel goes by the
	// name alone when it looks for the place of a kprobe.
	Shared bool
	// Alias says that BTF has Type under another name of the same code.
	Alias bool
	// Cut is what the compiler has taken away from the signature in Type.
	Cut Cut
}

// A Cut is what a static function of a BPF program does not have of its signature in BTF: compilers
// take away what nobody needs.
type Cut struct {
	Params bool `json:",omitempty"` // parameters, and BTF does not tell which
	Passed int  `json:",omitempty"` // how many are left of them
	Result bool `json:",omitempty"` // the result, which no caller reads
}

// String returns the function as a SPEC selects it: "name", "name[module]" or, of a BPF program,
// "bpf:name" or "bpf:subprogram[name]".
func (f Function) String() string {
	if p, ok := f.Program(); ok && p.Name == f.Name {
		return programPrefix + f.Name
	} else if ok {
		return programPrefix + f.Name + "[" + p.Name + "]"
	}
	if path, ok := userPath(f.Module); ok {
		return userPrefix + path + ":" + f.Name
	}
	if f.Module == "" {
		return f.Name
	}
	return f.Name + "[" + f.Module + "]"
}

// Program returns the BPF program that a function belongs to. ok is false for functions of the
// kernel and its modules.
func (f Function) Program() (p LoadedProgram, ok bool) { return programOf(f.Module) }

// InProgram reports whether a function is one of a BPF program with a name or ID that matches.
func (f Function) InProgram(pattern string) bool {
	p, ok := f.Program()
	return ok && (pattern == "" || p.matches(pattern))
}

func compare(a, b Function) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Module, b.Module), cmp.Compare(a.Addr, b.Addr))
}

// copySuffixes begin what compilers put behind the name of a copy with fewer or constant arguments, and LLVM behind that of a static
// function that it makes global (ThinLTO).
var copySuffixes = [...]string{".isra.", ".constprop.", ".llvm."}

// copyOf returns the original's name if name is a copy that the compiler made.
func copyOf(name string) (base string, ok bool) {
	dot := strings.IndexByte(name, '.')
	if dot <= 0 {
		return "", false
	}
	suffix := name[dot:]
	return name[:dot], slices.ContainsFunc(copySuffixes[:], func(s string) bool { return strings.HasPrefix(suffix, s) })
}

// isFunction tells functions from other code in kallsyms: padding before functions, parts
// moved out of functions, BPF programs and trampolines.
func isFunction(name, module string) bool {
	switch {
	case noModule(module):
		return false
	case strings.HasPrefix(name, "__pfx_"), strings.HasPrefix(name, "__cfi_"), strings.HasPrefix(name, "."):
		return false
	}
	return !strings.HasSuffix(name, ".cold") && !strings.Contains(name, ".cold.") && !strings.Contains(name, "__pi___pfx_")
}

// noModule reports whether a module's name is a word of the kernel for BPF programs, or for
// trampolines of ftrace and kprobes.
func noModule(name string) bool { return name == "bpf" || strings.HasPrefix(name, "__builtin__") }
