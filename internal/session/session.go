// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Session is what one thread did between the call of an entry function and its return.
type Session struct {
	PID, TID uint32 // in the initial PID namespace
	Inner    bpf.Inner
	Comm     string // the thread's name when the session opened
	Leader   string // the name of its process
	// Start and End are in CLOCK_MONOTONIC ns. End is the time of the report if the session
	// is still open.
	Start, End uint64
	State      State
	Func       *plan.Probe // the entry function
	Failed     bool        // with the error of Chain.Failure
	// Interrupt says that an interrupt on CPU made the calls, not the thread that it
	// interrupted.
	Interrupt bool
	CPU       uint16
	// Owner is whose thread it was when the session opened, if HasOwner says that this was
	// recorded.
	Owner    bpf.Owner
	HasOwner bool
	// Parent is what was found of the span of the program that it belongs to, if HasParent says that this
	// was looked for.
	Parent    bpf.Parent
	HasParent bool
	// OffCPU is for how long the thread was off the CPU, in ns, if HasOffCPU says that this was
	// recorded: of the session, of its calls and of its steps.
	OffCPU    uint64
	HasOffCPU bool
	// User has the stack of the process in its tail, as it was when the thread had entered the kernel, or, after an
	// execve or rt_sigreturn that succeeded, as it goes on; nil if that was not asked for.
	User *event.Event
	Lost Lost
	Loss event.Loss // set if State is Missing, and then nothing else is

	// Chain is the failing chain. Without a failure it is the last calls made; in an open
	// session, the calls in flight.
	Chain Chain
	// Interim are failing chains that gave way before the session ended: their caller
	// continued, or failed for another reason. Oldest first. They are only present on
	// request.
	Interim []Chain
	// Trace has every recorded call in the order of events, on request only. A Running
	// session has the steps since its last report.
	Trace []Step
}

// A State says why a session is reported.
type State uint8

const (
	Returned State = iota // its entry function returned
	Running               // part of a live trace; more will come
	Hung                  // open for longer than --hung
	Exited                // its thread ended, and no return was seen
	Replaced              // its thread has called execve inside the session, which began in a function of the process
	Missing               // not a session: Loss says what is missing here
)

// String returns the name that JSON has.
func (s State) String() string {
	return [...]string{Returned: "returned", Running: "running", Hung: "hung", Exited: "exited", Replaced: "replaced", Missing: "missing"}[s]
}

// Unreturned says why the entry function will never return, "" if it may.
func (s State) Unreturned() string {
	switch s {
	case Exited:
		return "no return was seen before the thread ended"
	case Replaced:
		return "the thread began another program in here"
	}
	return ""
}

// Lost counts by cause what is missing in one session. A session with any of these is shown
// with a mark.
type Lost struct {
	Deep    uint32 // calls nested too deeply
	Chunk   uint32 // parts of the session that could not be sent
	Args    uint32 // calls whose values found no room
	Returns uint32 // calls whose return was not seen
	Room    uint32 // calls for whose return the kernel had no room
	Reasons uint32 // failing chains that gave way before their role was known
	Chains  uint32 // interim chains dropped for lack of memory
	Stack   bool   // the kernel stack could not be taken
}

// Any reports whether anything was lost.
func (l Lost) Any() bool { return l != Lost{} }

// A Chain is a chain of nested calls, with the kernel's view of it.
type Chain struct {
	Frames    []Frame // outermost first, stitched frames last
	Interrupt bool    // Session.Interrupt
	// Stack has the return addresses that the kernel unwound when the innermost frame
	// returned, innermost first.
	Stack []uint64
	// Branches are the branches taken before that, newest first.
	Branches []Branch
	// AllBranches says that no branch between two of them is missing. NoBranches is the
	// error number if there are none.
	AllBranches bool
	NoBranches  uint8
}

// Failure returns the call whose error is that of the whole chain; nil if there is none. It is
// the outermost one that failed: a function whose result cannot show an error lets that of its
// callee pass. The engine's filter for errors does the same.
func (c *Chain) Failure() *Frame {
	for i := range c.Frames {
		if f := &c.Frames[i]; f.Finished && f.Failed {
			return f
		}
	}
	return nil
}

// A Frame is one call of a chain.
type Frame struct {
	Func     *plan.Probe
	Entry    uint64 // CLOCK_MONOTONIC ns
	Duration uint64 // ns; up to the report if the call has not returned
	OffCPU   uint64 // ns of Duration
	Result   uint64 // the return register
	Finished bool   // it has returned, so Duration and Result are final
	Failed   bool
	Stitched bool // a failed call that its caller followed with other calls
	// Returned is the low half of the return address, or 0 if unknown.
	Returned uint32
	Values   Values
}

// Values are the captured values of a call.
type Values struct {
	// Event has the values that the function's SPEC asks for; nil if it asks for none.
	// Until the call returns, values of return are marked as unreadable.
	Event *event.Event
	Args  []Arg // with -A only, else nil
}

// An Arg is an argument captured by -A.
type Arg struct {
	Param *layout.Param
	// Value are the bytes of the parameter, as many as its type has. Nil means unreadable
	// or not captured.
	Value  []byte
	Beyond bool // not captured: passed beyond the words that are
	// Withheld says that it is not captured since the user wants it so.
	Withheld bool
	// Target are the bytes that Value points to: a value of TargetType or, if Text is set,
	// a string without its NUL. Nil means that the target is unknown or unreadable.
	Target     []byte
	TargetType btf.Type
	Text       bool
	Cut        bool // Target is incomplete
}

// A Step is a row of a call trace.
type Step struct {
	Kind     StepKind
	Depth    int // nesting; 0 is the entry function
	Func     *plan.Probe
	Probe    string // name of an injected probe, for StepProbe only
	Time     uint64 // CLOCK_MONOTONIC ns
	Duration uint64 // ns, for StepExit and StepLeaf
	OffCPU   uint64 // ns of Duration
	OffSum   uint64 // Session.OffCPU as it was at Time
	Result   uint64 // return register, for the same
	Failed   bool
	Values   Values // at both ends of a call the same Event: the end says which of it is known
	Count    uint32 // calls, for StepLeft only
	// Alone says of a StepExit that its StepEntry is not among the steps, so that what was read
	// at entry is to be shown here: with Decoder.Live, or if that part of the log was dropped.
	Alone bool
}

// A StepKind says what a Step is.
type StepKind uint8

const (
	StepEntry StepKind = iota
	StepExit
	StepLeaf  // entry and exit with nothing recorded in between
	StepProbe // a thread came by an injected probe
	StepLost  // something is missing here; Values and Func are empty
	StepLeft  // calls were left out here because the session took too much memory
	StepOpen  // the values of a call, known now, of which neither the entry nor a return is among the steps
)

// A Branch is one branch that the CPU recorded.
type Branch = event.Branch
