// SPDX-License-Identifier: Apache-2.0

package layout

import "fmt"

// A Method is a way to run programs at the entry and return of a function, or at a
// tracepoint. The minimum versions are those of the mainline kernel.
type Method uint8

const (
	MethodAuto          Method = iota
	MethodFentry               // fentry and fexit, on the function's trampoline; Linux 5.5
	MethodKprobe               // kprobe and kretprobe
	MethodKprobeMulti          // kprobe.multi and kretprobe.multi: many functions with one link; Linux 5.18
	MethodKprobeSession        // kprobe.session: one program for both ends of a call; Linux 6.10
	MethodFsession             // fsession: the same on the function's trampoline; Linux 7.0
	MethodTracingMulti         // tracing_multi: trampolines of many functions with one link; Linux 7.3
	MethodTracepoint           // program that receives a tracepoint's record
	MethodTPBTF                // program that receives a tracepoint's arguments, with their BTF types
	MethodRawTP                // the same without types
	MethodUprobe               // uprobe: at an instruction of a file that user space executes
	numMethods
)

// String returns the name of m as in --attach.
func (m Method) String() string {
	if m >= numMethods {
		return fmt.Sprintf("Method(%d)", uint8(m))
	}
	return [numMethods]string{"auto", "fentry", "kprobe", "multi", "session", "fsession", "tracing_multi", "tracepoint", "tp_btf", "raw_tp", "uprobe"}[m]
}

// MethodNamed returns the method with this name. It is the inverse of String.
func MethodNamed(name string) (m Method, ok bool) {
	for m := range numMethods {
		if m.String() == name {
			return m, true
		}
	}
	return MethodAuto, false
}

// argsAtReturn reports whether a program at return still sees the arguments that were
// passed.
func (m Method) argsAtReturn() bool { return m.Trampoline() }

// Trampoline reports whether m runs programs on a trampoline of the function. These
// programs have one context for both ends of a call, with all arguments in it.
func (m Method) Trampoline() bool {
	return m == MethodFentry || m == MethodFsession || m == MethodTracingMulti
}
