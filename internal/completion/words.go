// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"github.com/ksnoop/ksnoop/expr"
)

// about says what functions of the language and context values are. It is never changed.
var about = map[string]string{
	"entry": "the value when the function was called", "exit": "the value when it returns", "diff": "what the call has changed",
	"user": "a pointer into user space", "str": "a string", "ustr": "a string of user space", "buf": "bytes: buf(p, n)",
	"hex": "in hexadecimal", "dec": "in decimal", "sym": "the symbol at an address", "ip": "an IP address", "mac": "a hardware address",
	"path": "the way of the call through the function", "ntohs": "16 bits in host order", "ntohl": "32 bits in host order",
	"count": "calls", "sum": "the sum", "min": "the smallest value", "max": "the largest value", "avg": "the mean",
	"stats": "count, sum, mean, smallest and largest value", "hist": "calls by powers of two", "lhist": "calls by steps: lhist(x, low, high, step)",
	"quantiles": "what 50, 90, 99 and 99.9 % do not exceed", "top": "the most frequent values: top(n, x)",
	"container_of": "the object around a member: container_of(p, struct t, m)", "sizeof": "the size in bytes",
	"$pid": "process", "$tid": "thread", "$uid": "user", "$comm": "name of the task", "$task": "the kernel's object for the task", "$cpu": "CPU", "$cgroup": "ID of the control group",
	"$container": "the container", "$pod": "the pod",
	"$time": "when it was, in ns", "$duration": "from entry to return, in ns", "$any": "the first parameter of a type: $any(struct sock *)",
	"$func": "key: the function", "$stack": "key: the stack in the kernel", "$ustack": "key: the stack in user space",
	"return": "the result", "NULL": "no pointer", "struct": "a type", "union": "a type", "enum": "a type",
	"syscall:": "system calls", "tp:": "tracepoints", "rawtp:": "tracepoints, with the kernel's objects", "kprobe:": "an instruction of a function",
	"bpf:": "functions of loaded BPF programs", "uprobe:": "functions of programs and libraries: uprobe:FILE:FUNCTION", "uretprobe:": "what they return: uretprobe:FILE:FUNCTION",
	"usdt:": "places that programs mark: usdt:FILE:PROVIDER:NAME",
	":":     "functions of source files",
	"->":    "a member", ".": "a member", "[": "an element", ",": "another one", ")": "the end", "]": "the end",
	"==": "equal", "!=": "not equal", "<": "less", "<=": "at most", ">": "more", ">=": "at least", "&": "bits in common", "&&": "and", "||": "or",
	"+": "plus", "-": "minus", "~": "matches a glob", `"`: "a string",
}

// builtin returns a function of the language.
func builtin(name string) (f expr.Builtin, ok bool) {
	for _, f := range expr.Builtins() {
		if f.Name == name {
			return f, true
		}
	}
	return f, false
}

// aggregates reports whether a function adds calls up.
func aggregates(name string) bool {
	f, ok := builtin(name)
	return ok && f.Aggregates
}

func precedence(operator string) int { return expr.BinaryPrecedence(operator) }

// identifier reports whether a name is one that a SPEC can have in it.
func identifier(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return name != ""
}
