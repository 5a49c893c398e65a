// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Plan is a fully resolved tracing request. It holds no file descriptors: a
// Plan and recorded bytes are all that is needed to decode, filter and print
// elsewhere.
type Plan struct {
	// Probes has one element for each traced function and SPEC; a record
	// names the probe it comes from by its index here.
	Probes []*Probe
}

// ItemText returns the part of the SPEC that an item was read from.
func (p *Probe) ItemText(item int) string {
	pos := p.Items[item].Pos
	return p.Spec.Text[pos.Start:pos.End]
}

// A Method is a way of getting called when a function is entered and left.
type Method uint8

const (
	MethodAuto         Method = iota
	MethodFentry              // fentry and fexit programs on the function's trampoline
	MethodKprobe              // a kprobe and a kretprobe
	MethodMulti               // kprobe.multi and kretprobe.multi: many functions by one link
	MethodSession             // kprobe.session: one program for both ends of a call
	MethodFsession            // fsession: the same on the function's trampoline
	MethodTracingMulti        // tracing_multi: the trampolines of many functions by one link
	MethodTracepoint          // a program that is handed a tracepoint's record
	MethodTPBTF               // a program that is handed what a tracepoint is called with, and knows the types
	MethodRawTP               // the same without types
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

// AtBothEnds reports whether one program runs at both ends of a call of p, and
// the kernel keeps 8 bytes for it in between, the cookie of the session.
func (p *Probe) AtBothEnds() bool {
	return (p.Method == MethodFsession || p.Method == MethodTracingMulti) && p.Entry != nil && p.Return != nil
}

// A Probe is one function traced for one SPEC.
type Probe struct {
	ID   int
	Spec *expr.Spec
	// Func is the function that is traced or hooked; of a tracepoint there is
	// its name only.
	Func   kernel.Function
	Target Target // what it is traced as, unless as a function
	Params []Param
	Result btf.Type // nil if the function returns nothing
	Items  []expr.Item
	Method Method
	// Session is the function's part in sessions; nil if calls are sent as
	// they happen.
	Session *Function

	paired bool // Options.Paired

	// Entry and Return say what is to be done at the two ends of a call; nil
	// where there is nothing to do.
	Entry, Return *Half
	// Joined says that a call is one record, sent at return, rather than one
	// for its entry and one for its return.
	Joined bool
	// Stashed says that Entry leaves a record behind for Return to find.
	Stashed bool
	// Timed says that the time of entry is wanted at return.
	Timed bool

	label  string // what Name returns, if it is not the function's name
	hidden int    // Params at the end that no SPEC can name
	doubts []*expr.Error
}

// RecordSize returns the size of the larger of the probe's records, in bytes.
func (p *Probe) RecordSize() uint32 {
	var size uint32
	for _, h := range []*Half{p.Entry, p.Return} {
		if h != nil && h.Record != nil {
			size = max(size, h.Record.Size)
		}
	}
	return size
}

// A Param is a parameter of a traced function and where it is passed.
type Param struct {
	expr.Param
	Loc Loc
}

// A Half is what is done at one end of a call.
type Half struct {
	// Predicates must all hold for the call to go on being looked at. Those
	// that read no memory come first.
	Predicates []Predicate
	// Record lays out what is sent from here; nil if nothing is.
	Record *Record
	// Stores are the slots, of this half's record or of the one that is left
	// for the return half, whose values are read here.
	Stores []Slot
}

// A Predicate is a condition on a call.
type Predicate struct {
	Term expr.Term
	Item int // of the probe, for its text
}

// A Record is the layout of a record's data, which follows the event header.
type Record struct {
	Slots []Slot
	Size  uint32 // bytes of data
}

// A Slot is where one value lies in a record.
type Slot struct {
	Index int // its bit in the header's fault mask
	// Term is what is stored: a scalar in its register form, 8 bytes; the
	// bytes of an Object or a Buffer; the NUL-terminated bytes of a Text.
	Term expr.Term
	// Off and Size are in bytes of the record's data. Off is a multiple of 8.
	Off, Size uint32
	// Item and Capture say what the slot belongs to; Capture is -1 for a value
	// that is only kept for a predicate.
	Item, Capture int
	// Role tells the slots of one capture apart.
	Role Role
}

// A Role is what a slot is to its capture.
type Role uint8

const (
	RoleValue  Role = iota // the scalar, or the pointer
	RoleTarget             // the aggregate, string or what the pointer points to
	RoleAfter              // the same as RoleTarget or RoleValue at return, for diff()
	RoleKept               // an operand of what is computed at return that was computed at entry
)

// MaxSlots is how many values one record can hold: the width of the fault mask.
const MaxSlots = 64

// MaxObject is how much of one object is captured, in bytes. Larger ones are
// cut off there, and printed as cut off.
const MaxObject = 8192

// MaxRecord bounds a record's data, in bytes: BPF instructions reach 32 KiB from
// a register.
const MaxRecord = 31 << 10
