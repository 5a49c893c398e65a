// SPDX-License-Identifier: Apache-2.0

package layout

// A Method is a way of getting called when a function is entered and left.
type Method uint8

const (
	MethodAuto          Method = iota
	MethodFentry               // fentry and fexit programs on the function's trampoline
	MethodKprobe               // a kprobe and a kretprobe
	MethodKprobeMulti          // kprobe.multi and kretprobe.multi: many functions by one link
	MethodKprobeSession        // kprobe.session: one program for both ends of a call
	MethodFsession             // fsession: the same on the function's trampoline
	MethodTracingMulti         // tracing_multi: the trampolines of many functions by one link
	MethodTracepoint           // a program that is handed a tracepoint's record
	MethodTPBTF                // a program that is handed what a tracepoint is called with, and knows the types
	MethodRawTP                // the same without types
	numMethods
)

// String returns the name that --attach takes.
func (m Method) String() string {
	return [numMethods]string{"auto", "fentry", "kprobe", "multi", "session", "fsession", "tracing_multi", "tracepoint", "tp_btf", "raw_tp"}[m]
}

// MethodNamed is the inverse of String.
func MethodNamed(name string) (m Method, ok bool) {
	for m := range numMethods {
		if m.String() == name {
			return m, true
		}
	}
	return MethodAuto, false
}

// argsAtReturn reports whether a program that runs at return still sees the
// arguments that were passed.
func (m Method) argsAtReturn() bool { return m.Trampoline() }

// Trampoline reports whether programs run on a trampoline of the function: at
// both ends of a call they have the same context, with all that was passed.
func (m Method) Trampoline() bool {
	return m == MethodFentry || m == MethodFsession || m == MethodTracingMulti
}
