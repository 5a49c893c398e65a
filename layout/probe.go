// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Probe is one place of the kernel that is traced for one SPEC. What it takes to
// reach it is for others to know.
type Probe struct {
	ID int // which a record names
	// Name is what a SPEC selects it by, and views call it; Function the kernel's
	// function that is traced or hooked, of a tracepoint its name.
	Name, Function string
	Kind           expr.Kind  // of its target
	Spec           *expr.Spec // nil if nothing is asked but to be recorded in sessions
	Items          []expr.Item
	Params         []Param
	Result         btf.Type // nil if the function returns nothing
	Method         Method
	Role           Role
	// Class is that of a function of sessions.
	Class ErrorClass
	// Args are the arguments that are captured in sessions, with what they point
	// to; nil if none are.
	Args []Arg
	// Paired makes the return of a call be sent if, and only if, its entry was.
	Paired bool

	// What follows is for Lay to fill in.

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
}

// A Role is what a probe is there for.
type Role uint8

const (
	RoleCall           Role = iota // its calls are sent as they happen
	RoleEntry                      // its calls open sessions
	RoleInside                     // its calls are recorded in sessions
	RoleInjected                   // sessions note when a thread comes by
	RoleInjectedReturn             // the same when the function returns
)

// Known reports whether there is such a role.
func (r Role) Known() bool { return r <= RoleInjectedReturn }

// Injected reports whether a probe is a part of sessions besides their calls.
func (r Role) Injected() bool { return r >= RoleInjected }

// IsCall reports whether a probe is on the calls of a function, which may be
// one that serves a system call, and the method of attaching can be chosen.
func (p *Probe) IsCall() bool {
	return !p.Role.Injected() && (p.Kind == expr.Function || p.Kind == expr.Syscall)
}

// HasItems reports whether a SPEC asks for values of the calls or has predicates
// on them.
func (p *Probe) HasItems() bool { return len(p.Items) > 0 }

// Conditional reports whether calls must meet predicates.
func (p *Probe) Conditional() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool { return it.Predicate != nil })
}

// ItemText returns the part of the SPEC that an item was read from.
func (p *Probe) ItemText(item int) string {
	pos := p.Items[item].Pos
	return p.Spec.Text[pos.Start:pos.End]
}

// AtBothEnds reports whether one program runs at both ends of a call of p, and
// the kernel keeps 8 bytes for it in between, the cookie of the session.
func (p *Probe) AtBothEnds() bool {
	return (p.Method == MethodFsession || p.Method == MethodTracingMulti) && p.Entry != nil && p.Return != nil
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
	// Part tells the slots of one capture apart.
	Part Part
}

// A Part is what a slot is to its capture.
type Part uint8

const (
	PartValue  Part = iota // the scalar, or the pointer
	PartTarget             // the aggregate, string or what the pointer points to
	PartAfter              // the same as PartTarget or PartValue at return, for diff()
	PartKept               // an operand of what is computed at return that was computed at entry
)

// MaxSlots is how many values one record can hold: the width of the fault mask.
const MaxSlots = 64

// MaxObject is how much of one object is captured, in bytes. Larger ones are
// cut off there, and printed as cut off.
const MaxObject = 8192

// MaxRecord bounds a record's data, in bytes: BPF instructions reach 32 KiB from
// a register.
const MaxRecord = 31 << 10
