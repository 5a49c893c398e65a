// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A Probe is one place in the kernel that is traced for one SPEC. It says what to do there,
// not how to attach to it. The caller fills in the fields down to Paired, and calls Lay for
// the others.
type Probe struct {
	ID int // number that records carry to name the probe
	// Name is the name that SPECs and views use. Function is the kernel function that is
	// traced or hooked; for a tracepoint, its name.
	Name, Function string
	Kind           expr.Kind // sort of target
	// InProgram marks a function of a BPF program. The verifier tells programs on its trampoline
	// nothing of what its parameters point to.
	InProgram bool
	// Point says that execution only passes a function of user space, as an instruction inside of it.
	Point  bool
	Spec   *expr.Spec // nil for a function that sessions record without being asked for values
	Items  []expr.Item
	Params []Param
	Result btf.Type // result type; nil for void
	Method Method
	Role   Role
	// Class says which results are failures. Only sessions use it.
	Class ErrorClass
	// Args are the arguments to capture in sessions, with what they point to. Nil captures
	// none.
	Args []Arg
	// Paired says that the return of a call is sent exactly if its entry was sent.
	Paired bool
	// Owner is what records of calls have of their task.
	Owner Owner
	// Placed says that the two records of a call tell its place. It is for functions of user space.
	Placed bool
	// Tables are the numbers of the tables that the items add to, by item. Only those of
	// aggregations count.
	Tables []int

	// Lay fills in the fields below.

	// Entry and Return say what to do at the two ends of a call; nil means nothing.
	Entry, Return *Half
	// Joined says that a call is one record, sent at return. Otherwise entry and return
	// send one record each.
	Joined bool
	// Stashed says that Entry leaves a frame in the stash, which Return looks up.
	Stashed bool
	// Timed says that Return needs the time of entry.
	Timed bool
}

// A Role says what the records of a probe are used for.
type Role uint8

const (
	RoleCall           Role = iota // sends its calls as they happen
	RoleEntry                      // its calls open sessions
	RoleInside                     // sessions record its calls
	RoleInjected                   // sessions note that a thread came by
	RoleInjectedReturn             // the same, when the function returns
)

// Known reports whether r is a defined role.
func (r Role) Known() bool { return r <= RoleInjectedReturn }

// Injected reports whether the probe adds marks to sessions rather than calls.
func (r Role) Injected() bool { return r >= RoleInjected }

// IsCall reports whether the probe is on calls of a function, system calls included. Only
// then is there a choice of methods.
func (p *Probe) IsCall() bool {
	return !p.Role.Injected() && (p.Kind == expr.Function || p.Kind == expr.Syscall)
}

// Returns reports whether the probe is on calls that have an end to be seen.
func (p *Probe) Returns() bool {
	return p.IsCall() || !p.Role.Injected() && p.Kind == expr.UserFunction && !p.Point
}

// HasItems reports whether the SPEC has predicates or captures.
func (p *Probe) HasItems() bool { return len(p.Items) > 0 }

// Path reports whether the way that calls take is wanted.
func (p *Probe) Path() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool { return it.Path })
}

// Conditional reports whether calls must satisfy predicates.
func (p *Probe) Conditional() bool {
	return slices.ContainsFunc(p.Items, func(it expr.Item) bool { return it.Predicate != nil })
}

// ItemText returns the text of an item in the SPEC.
func (p *Probe) ItemText(item int) string {
	pos := p.Items[item].Pos
	return p.Spec.Text[pos.Start:pos.End]
}

// AtBothEnds reports whether one program runs at both ends of a call. The kernel then keeps
// 8 bytes between the two runs, the session cookie.
func (p *Probe) AtBothEnds() bool {
	return (p.Method == MethodFsession || p.Method == MethodTracingMulti) && p.Entry != nil && p.Return != nil
}

// RecordSize returns the data size of the larger of the probe's records, in bytes.
func (p *Probe) RecordSize() uint32 {
	var size uint32
	for _, h := range []*Half{p.Entry, p.Return} {
		if h != nil && h.Record != nil {
			size = max(size, h.Record.Size)
		}
	}
	return size
}

// A Half is what to do at one end of a call.
type Half struct {
	// Predicates must all hold; otherwise the call is dropped. The cheap ones come first.
	Predicates []Predicate
	// Record is the layout of the record that this half sends. Nil means it sends none.
	Record *Record
	// Stores are the slots to fill here. They belong to Record, or, if this is the entry of
	// a joined call, to the record that Return sends.
	Stores []Slot
	// Updates are what a call that is wanted is added to. Record is not sent then.
	Updates []Update
}

// An Update adds a call to a row of a table.
type Update struct {
	Item  int // index of the item in the probe
	Table int
	// Key is the layout of the key. If Unsure is set, 8 bytes in front of it have the slots that
	// could not be read, as the header of a record has.
	Key    Record
	Unsure bool
	// Kept has, for each slot of the key, the slot of the call's record that entry has filled
	// with the same; -1 if the key's own term is to be computed.
	Kept []int
	// Value is what is added up; nil for count().
	Value expr.Term
}

// KeyWords returns how many words of 8 bytes the whole key has.
func (u *Update) KeyWords() int {
	if u.Unsure {
		return int(u.Key.Size/8) + 1
	}
	return int(u.Key.Size / 8)
}

// A Predicate is a condition that calls must satisfy.
type Predicate struct {
	Term expr.Term
	Item int // index of its item in the probe, for its text
}

// A Record is the layout of a record's data, which follows the event header: the owner and the place
// of the call, if they are there, and the values.
type Record struct {
	Slots []Slot
	Size  uint32 // bytes of data
	// Placed says that the place of the call is in the data, PlaceSize bytes at offset Place: the stack
	// pointer that it was called with. Both records of a call have it, and so belong together even
	// where calls within it have no return.
	Placed bool
	Place  uint32
}

// PlaceSize is how many bytes of a record's data the place of the call takes.
const PlaceSize = 8

// A Slot is the place of one value in a record. Numbers are little-endian.
type Slot struct {
	Index int // number of the bit in the header's fault mask that marks the value as unreadable
	// Term says what is stored: for a scalar, its register form (8 bytes); for an Object,
	// its bytes; for a Buffer, its length (8 bytes) and its bytes; for a Text, its bytes
	// and a NUL.
	Term expr.Term
	// Off and Size are in bytes, within the record's data. Off is a multiple of 8.
	Off, Size uint32
	// Item and Capture are the indexes of what the slot belongs to. Capture is -1 for a
	// value that is only kept to compute another one.
	Item, Capture int
	// Part tells the slots of one capture apart.
	Part Part
}

// A Part says which part of a capture a slot holds.
type Part uint8

const (
	PartValue  Part = iota // the scalar, or the pointer itself
	PartTarget             // the aggregate or string, or what the pointer points to
	PartAfter              // PartTarget or PartValue read again at return, for diff(x)
	PartKept               // a subterm computed at entry, for a term of return
)

// maxSlots is how many values a record can have: the fault mask is one 64-bit word.
const maxSlots = 64

// MaxObject is how many bytes of one object are captured. A larger object is cut there, and
// printed as cut.
const MaxObject = 8192

// MaxRecord bounds a record's data, in bytes. BPF instructions reach 32 KiB from a
// register.
const MaxRecord = 31 << 10
