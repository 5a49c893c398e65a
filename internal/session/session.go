// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A Session is what one thread did between the call of an entry function and
// its return.
type Session struct {
	PID, TID uint32 // in the initial PID namespace
	Inner    bpf.Inner
	Comm     string // the thread's name when the session was opened
	Leader   string // the process's
	// Start and End are CLOCK_MONOTONIC ns. End is the time of the report
	// while the session is open.
	Start, End uint64
	State      State
	Func       *plan.Probe // the entry function that opened it
	Failed     bool        // by the error rule
	// Interrupt says that it was not the thread itself, but an interrupt on top
	// of it, on CPU.
	Interrupt bool
	CPU       uint16
	Lost      Lost
	Loss      Loss // if State is Missing; all else is empty then

	// Chain is the failing chain or, of a session without one, the calls that
	// were made last; where it is, of one that is still open.
	Chain Chain
	// Interim are failing chains that have given way before the session ended:
	// their caller went on, or failed for another reason. Oldest first; only on
	// request.
	Interim []Chain
	// Trace has every recorded call in the order of events; only on request.
	// Of a Running session, what has been added since the last time.
	Trace []Step
}

// A State says why a session is reported.
type State uint8

const (
	Returned State = iota // its entry function has returned
	Running               // a part of a live trace: more is to come
	Hung                  // open for longer than --hung
	Exited                // its thread ended inside
	Missing               // no session: what Loss counts is missing here
)

// A Loss counts what is missing from the stream of sessions where it stands.
type Loss struct {
	Cause bpf.Counter
	Count uint64
}

// Lost counts what is missing in one session, by cause. A session with any of
// these is to be marked.
type Lost struct {
	Deep    uint32 // calls nested deeper than is kept
	Chunk   uint32 // parts of the session that could not be sent
	Args    uint32 // calls whose values found no room
	Returns uint32 // calls whose return was not seen
	Room    uint32 // calls for whose return the kernel had no room
	Reasons uint32 // failing chains that gave way before it was known whether they were the reason
	Chains  uint32 // interim chains for which the session took too much memory
	Stack   bool   // the kernel stack could not be taken
}

// Any reports whether anything was lost.
func (l Lost) Any() bool { return l != Lost{} }

// A Chain is a call chain and the kernel's own view of it.
type Chain struct {
	Frames []Frame // outermost first; stitched ones come last
	// Stack are return addresses as the kernel unwound them, innermost first,
	// taken when the innermost frame returned.
	Stack []uint64
	// Branches are the branches taken before that, newest first.
	Branches []Branch
	// AllBranches says that none is missing between two of them, NoBranches
	// why there are none: an error number.
	AllBranches bool
	NoBranches  uint8
}

// A Frame is one call of a chain.
type Frame struct {
	Func     *plan.Probe
	Entry    uint64 // CLOCK_MONOTONIC ns
	Duration uint64 // ns; of a call that has not returned, until the report
	Result   uint64 // the return register
	Finished bool   // has returned: Result and Duration are final
	Failed   bool
	Stitched bool // a failed call that was followed by others of its caller
	// Returned is the low half of the address that it returned to; 0 if that is
	// not known.
	Returned uint32
	Values   Values
}

// Values are what was captured of a call.
type Values struct {
	// Event has what the SPEC of the function asks for; nil if there is none.
	// While the call has not returned, what is read at return is marked as
	// faulty in it.
	Event *event.Event
	Args  []Arg // of -A; nil if not captured
}

// An Arg is one argument as -A captures it.
type Arg struct {
	Param *layout.Param
	// Value are the bytes of the parameter itself, as many as its type has;
	// nil if they could not be read, or are not captured.
	Value  []byte
	Beyond bool // passed too far away to be captured
	// Target are the bytes of what Value points to, a value of TargetType or,
	// if Text is set, a string without its NUL; nil if it does not point to
	// anything known or that could not be read.
	Target     []byte
	TargetType btf.Type
	Text       bool
	Cut        bool // Target is not all of it
}

// A Step is one row of a call trace.
type Step struct {
	Kind     StepKind
	Depth    int // of nesting; 0 is the entry function
	Func     *plan.Probe
	Probe    string // name of an injected probe; of StepProbe only
	Time     uint64 // CLOCK_MONOTONIC ns
	Duration uint64 // ns, of StepExit and StepLeaf
	Result   uint64 // the return register, likewise
	Failed   bool
	Values   Values
	Count    uint32 // of StepLeft only: calls
}

// A StepKind says what a Step is.
type StepKind uint8

const (
	StepEntry StepKind = iota
	StepExit
	StepLeaf  // entry and exit, nothing recorded in between
	StepProbe // an injected probe was hit
	StepLost  // something is missing here; Values and Func are empty
	StepLeft  // calls were left out here, since the session takes more memory than one may
)

// A Branch is one branch that the CPU recorded.
type Branch = event.Branch
