// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// AppendOpenSessions appends the code that sets reg to the number of open sessions.
func AppendOpenSessions(dst asm.Instructions, reg asm.Register) asm.Instructions {
	return appendLoad(dst, reg, mapOpenSessions)
}

// mapOpenSessions is the data section that open_sessions lies in.
const mapOpenSessions = ".data.sessions"

// VarOpenSessions is the number of open sessions. VarLeftOut is a LeftOut.
const (
	VarOpenSessions = engineVarOpenSessions
	VarLeftOut      = engineVarLeftOut
)

// A LeftOut counts the sessions that were not reported, by cause from LeftFine on.
type LeftOut [LeftUnmet - LeftFine + 1]uint64

// Bits of a cookie. The low 32 bits are the function's id.
const (
	CookieEntry      = uint64(1) << engineFuncBitFUNC_ENTRY_BIT      // it opens sessions
	CookieClassShift = int(engineFuncBitFUNC_CLASS_SHIFT)            // two bits, a layout.ErrorClass
	CookieArgs       = uint64(1) << engineFuncBitFUNC_ARGS_BIT       // all arguments are captured
	CookieTrampoline = uint64(1) << engineFuncBitFUNC_TRAMPOLINE_BIT // of one that opens sessions: it is called through a trampoline
)

// Flags of a call.
const (
	CallFinished = uint32(engineCallFlagCALL_FINISHED) // duration and result are those of its return
	CallFailed   = uint32(engineCallFlagCALL_FAILED)
	CallHidden   = uint32(engineCallFlagCALL_HIDDEN)  // it did not meet a predicate on its return
	CallReturns  = uint32(engineCallFlagCALL_RETURNS) // SessionCall.Returned is known
	CallJumped   = uint32(engineCallFlagCALL_JUMPED)  // its caller ended by a jump to it
)

// A SessionRecordKind says why a record of a session was sent.
type SessionRecordKind uint8

const (
	SessionEnd   = SessionRecordKind(engineSessionKindSESSION_END)   // its entry function has returned
	SessionChunk = SessionRecordKind(engineSessionKindSESSION_CHUNK) // a part of the log of an open session
	SessionChain = SessionRecordKind(engineSessionKindSESSION_CHAIN) // a failing chain that was not the reason of its caller's result
	SessionDrop  = SessionRecordKind(engineSessionKindSESSION_DROP)  // it has ended and is not wanted; parts of it were sent
	SessionHung  = SessionRecordKind(engineSessionKindSESSION_HUNG)  // it has been open for long
	SessionExit  = SessionRecordKind(engineSessionKindSESSION_EXIT)  // its thread has ended
	SessionExec  = SessionRecordKind(engineSessionKindSESSION_EXEC)  // its thread runs another program
)

// Sizes and offsets in records and sessions.
const (
	SessionHeaderSize = int(unsafe.Sizeof(engineSessionRecord{}))
	CallSize          = int(unsafe.Sizeof(engineCall{}))
	// SessionTicket is the offset in a session at which programs store the ticket of their branch
	// snapshot.
	SessionTicket = int(unsafe.Offsetof(engineSession{}.Ticket))
	// ItemHead is the size of what comes before the event in an entry of kind LogItem or LogProbe.
	ItemHead = int(unsafe.Offsetof(engineFrame{}.Event))
)

// SessionSettings say which sessions are reported and what is recorded in them.
type SessionSettings struct {
	Longer    uint64 // ns; shorter sessions are not reported
	Hung      uint64 // ns; longer sessions are reported while they are open; 0: never
	Success   bool   // report sessions that do not fail, too
	Interim   bool   // report failing chains that were given up, too
	Traced    bool   // log every call
	Live      bool   // send the log at once
	Condition bool   // report only sessions in which a call has met its predicates
	Overrun   bool   // count calls whose returns fprobes miss, from Linux 6.14 on
	// Trampolines says that entry functions are called through trampolines.
	Trampolines bool
	// InProcess says that entry functions are the process's.
	InProcess bool
	// Errors are the errors to report: bit i%64 of word i/64 for errno i, bit 0 for NULL. nil is all.
	Errors *[MaxErrno/64 + 1]uint64
	// OffCPU notes for how long the thread, and each call, was off the CPU.
	OffCPU bool
	// Parent is where the span of the traced program is looked for that a session belongs to.
	Parent ParentPlace
	// Values says that calls have values.
	Values bool
	// Arguments say which arguments are captured, by the function's id; nil: none.
	Arguments []ArgList
	CPUs      int // possible ones
	// Count is how many sessions can be open at once, MaxSessions at most.
	Count int
}

// MaxSessions is the most sessions that can be open at once. Before Linux 6.2 the value of an array cannot be
// large enough for the index of more.
const MaxSessions = 32768

// SessionsIn returns the default of Count on a machine with so many bytes of memory: as many sessions
// as fit into a 64th of it, but at least into 8 MiB and at most into 64 MiB.
func (s *SessionSettings) SessionsIn(memory uint64) int {
	return int(min(max(memory/64, 8<<20), 64<<20)) / s.Size()
}

// Size is what a session takes in memory, in bytes.
func (s *SessionSettings) Size() int {
	log, stash := s.room()
	size := int(unsafe.Sizeof(engineSession{})) + log + stash
	if s.OffCPU {
		size += int(unsafe.Sizeof(engineOffCpu{}))
	}
	return size
}

// notes is what is noted of each call.
func (s *SessionSettings) notes() engineNotes {
	switch {
	case s.OffCPU:
		return engineNotesNOTE_OFF_CPU
	case s.Traced:
		return engineNotesNOTE_LOG
	}
	return engineNotesNOTE_NOTHING
}

// room is what a session has for its log and its stash, in bytes.
func (s *SessionSettings) room() (log, stash int) {
	if s.Traced || s.Values {
		log = logSize
	}
	if s.Traced && s.Values {
		stash = stashSize
	}
	return log, stash
}

// MaxErrno is the largest errno.
const MaxErrno = 64*len(engineSessionConfig{}.Errnos) - 1

// An ArgList says which arguments of a function are captured.
type ArgList struct {
	Words   int  // how many words the arguments are passed in
	User    bool // a system call: the arguments are in the registers of user space
	Targets []ArgTarget
	// Withheld are the words that are not captured, as bits.
	Withheld uint16
}

// An ArgTarget says what is captured where one of the words points.
type ArgTarget struct {
	Word int
	Text bool // a string
	Size int  // bytes at most
}

// Limits of an ArgList.
const (
	MaxArgWords   = int(engineArgLimitARG_WORDS)
	MaxArgTargets = int(engineArgLimitARG_TARGETS)
	MaxArgReach   = int(engineArgLimitARG_REACH) // bytes of a target
)

// Sizes of a session's log and of its stash, in bytes. The stash holds the values of calls in flight
// if the log may be sent before they return. The last part of a log may go on where the stash was.
const (
	logSize   = 24 << 10
	stashSize = 8 << 10
)

// MaxDepth is how many calls of a session can be in flight.
const MaxDepth = len(engineSession{}.Calls)

// The most that a record of a session has.
const (
	maxFrames = MaxDepth + len(engineSession{}.Kept[0].Calls)
	maxWords  = len(engineSession{}.Trail.Stack) // of a stack
)

// prepareSessions sets the engine up for sessions. If s is nil, it removes what only they need.
func prepareSessions(spec *ebpf.CollectionSpec, s *SessionSettings) error {
	delete(spec.Programs, engineProgSessionLibrary)
	if s == nil {
		for _, name := range []string{engineMapSessions, mapIndex, engineMapArguments, engineMapCopies, MapSpanPlaces} {
			delete(spec.Maps, name)
		}
		delete(spec.Programs, ProgSessionExit)
		delete(spec.Programs, ProgSessionExec)
		delete(spec.Programs, ProgSessionHung)
		delete(spec.Programs, ProgSessionFree)
		delete(spec.Programs, ProgSessionSwitch)
		return nil
	}
	if s.Hung == 0 {
		delete(spec.Programs, ProgSessionHung)
		delete(spec.Maps, engineMapCopies)
	}
	if !s.InProcess {
		delete(spec.Programs, ProgSessionExec)
	}
	if !s.OffCPU {
		delete(spec.Programs, ProgSessionSwitch)
	}
	config := engineSessionConfig{Longer: s.Longer, Hung: s.Hung, Success: flag(s.Success), Interim: flag(s.Interim),
		Traced: flag(s.Traced), Live: flag(s.Live), Condition: flag(s.Condition), Overrun: flag(s.Overrun), Notes: uint8(s.notes()), Parent: uint8(s.Parent), Trampolines: flag(s.Trampolines)}
	if s.Errors != nil {
		config.ByErrno, config.Errnos = 1, *s.Errors
	}
	log, stash := s.room()
	for name, v := range map[string]any{
		engineVarWanted: config, engineVarLogSize: uint32(log), engineVarStashSize: uint32(stash), engineVarSessionSize: uint32(s.Size()),
	} {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	for _, name := range []string{engineMapSessions, engineMapCopies} {
		if m := spec.Maps[name]; m != nil {
			resize(m, s.Size())
		}
	}
	if err := setPool(spec, s.Count, s.CPUs); err != nil {
		return err
	}
	if s.Parent.Places() {
		spec.Maps[MapSpanPlaces].MaxEntries = maxSpanPlaces
	}
	args := spec.Maps[engineMapArguments]
	args.MaxEntries = uint32(max(len(s.Arguments), 1))
	for i, list := range s.Arguments {
		args.Contents = append(args.Contents, ebpf.MapKV{Key: uint32(i), Value: list.engine()})
	}
	return nil
}

// mapIndex is the data section that session_index lies in.
const mapIndex = ".data.index"

// setPool sets the sizes of the pool, of its index, and of what interrupts have behind it.
func setPool(spec *ebpf.CollectionSpec, count, cpus int) error {
	if count < 1 || count > MaxSessions {
		return fmt.Errorf("room for %d sessions: there can be 1 to %d", count, MaxSessions)
	}
	buckets := bits.Len(uint(2*count - 1)) // two for each session, as a power of two
	for name, v := range map[string]uint32{engineVarSessionCount: uint32(count), engineVarIndexShift: uint32(32 - buckets)} {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	spec.Maps[engineMapSessions].MaxEntries = uint32(count + 2*max(cpus, 1))
	enlarge(spec.Maps[mapIndex], "session_index", int(unsafe.Sizeof(engineBucket{}))<<buckets)
	return nil
}

func (l ArgList) engine() engineArgList {
	e := engineArgList{Words: uint8(min(l.Words, MaxArgWords)), Targets: uint8(min(len(l.Targets), MaxArgTargets)), User: flag(l.User), Withheld: l.Withheld}
	for i := range int(e.Targets) {
		t := l.Targets[i]
		kind := engineArgLimitTARGET_BYTES
		if t.Text {
			kind = engineArgLimitTARGET_TEXT
		}
		e.Target[i].Word, e.Target[i].Kind, e.Target[i].Size = uint8(t.Word), uint8(kind), uint16(min(t.Size, MaxArgReach))
	}
	return e
}

// A SessionHeader is the header of a record of a session.
type SessionHeader struct {
	Start, End  uint64 // CLOCK_MONOTONIC ns
	PID, TID    uint32 // in the initial PID namespace
	Inner       Inner
	Func        uint32 // id of the entry function
	LogBase     uint32 // how much of the log was sent before
	LogSize     uint32
	LostDeep    uint32 // calls that were nested too deeply
	LostValues  uint32 // calls whose values found no room
	LostChunks  uint32 // records of this session that found no room in the ring buffer
	LostReturns uint32 // calls whose returns were not seen
	LostRoom    uint32 // calls for whose returns the kernel had no room
	LostChains  uint32 // failing chains given up before it was known whether they were the reason
	CPU         uint16
	Kind        SessionRecordKind
	Failed      bool
	Interrupt   bool // it was opened by an interrupt
	Hard        bool // by a hard one, which may have interrupted a soft one that has a session, too
	// Branches is how many branches follow the stack. NoBranches is an error number that says why
	// there are none. AllBranches says that branches of every kind were recorded.
	Branches    int
	NoBranches  uint8
	AllBranches bool
	HasOffCPU   bool // off-CPU times follow the branches: see OffCPU
	// Tail is what comes last: a section with the stack of the process, or with a copy of it, if that was asked for.
	Tail         []byte
	HasOwner     bool // whose thread it was when the session began
	Owner        Owner
	HasParent    bool // it was looked for
	Parent       Parent
	Depth        int // calls in flight
	Frames       int // in the record
	Stitched     int // index of the first call of a chain that was kept while others were made; 0: none
	Stack        int // words of kernel stack in the record
	Comm, Leader [16]byte
}

// DecodeSession reads the header of a session's record, with its owner, and returns what follows it, of which there is
// as much as the header says.
func DecodeSession(raw []byte, h *SessionHeader) (data []byte, err error) {
	if len(raw) < SessionHeaderSize {
		return nil, fmt.Errorf("record of %d bytes is shorter than its header", len(raw))
	}
	var l engineSessionRecord
	le := binary.LittleEndian
	u32 := func(off uintptr) uint32 { return le.Uint32(raw[off:]) }
	u16 := func(off uintptr) int { return int(le.Uint16(raw[off:])) }
	*h = SessionHeader{
		Start: le.Uint64(raw[unsafe.Offsetof(l.Start):]), End: le.Uint64(raw[unsafe.Offsetof(l.End):]),
		PID: u32(unsafe.Offsetof(l.Tgid)), TID: u32(unsafe.Offsetof(l.Tid)),
		Inner: decodeInner(raw, unsafe.Offsetof(l.InnerTgid), unsafe.Offsetof(l.InnerTid), raw[unsafe.Offsetof(l.Ours)] != 0), Func: u32(unsafe.Offsetof(l.Func)),
		LogBase: u32(unsafe.Offsetof(l.LogBase)), LogSize: u32(unsafe.Offsetof(l.LogSize)),
		LostDeep: u32(unsafe.Offsetof(l.LostDeep)), LostValues: u32(unsafe.Offsetof(l.LostValues)),
		LostChunks: u32(unsafe.Offsetof(l.LostChunks)), LostReturns: u32(unsafe.Offsetof(l.LostReturns)),
		LostRoom: u32(unsafe.Offsetof(l.LostRoom)), LostChains: u32(unsafe.Offsetof(l.LostChains)),
		CPU: uint16(u16(unsafe.Offsetof(l.Cpu))), Kind: SessionRecordKind(raw[unsafe.Offsetof(l.Kind)]),
		Failed: raw[unsafe.Offsetof(l.Failed)] != 0, Interrupt: raw[unsafe.Offsetof(l.Interrupt)] != 0, Hard: raw[unsafe.Offsetof(l.Interrupt)] > 1,
		Depth: u16(unsafe.Offsetof(l.Depth)), Frames: u16(unsafe.Offsetof(l.Frames)),
		Stitched: u16(unsafe.Offsetof(l.Stitched)), Stack: u16(unsafe.Offsetof(l.Stack)),
		Branches: int(raw[unsafe.Offsetof(l.Branches)]), NoBranches: raw[unsafe.Offsetof(l.NoBranches)],
		AllBranches: raw[unsafe.Offsetof(l.BranchFlags)]&byte(engineSectionFlagSECTION_ALL) != 0,
		HasOffCPU:   raw[unsafe.Offsetof(l.More)]&moreOffCPU != 0, HasOwner: raw[unsafe.Offsetof(l.Owner)] != 0, HasParent: raw[unsafe.Offsetof(l.Parent)] != 0,
	}
	copy(h.Comm[:], raw[unsafe.Offsetof(l.Comm):])
	copy(h.Leader[:], raw[unsafe.Offsetof(l.Leader):])
	data = raw[SessionHeaderSize:]
	if h.HasOwner {
		if len(data) < OwnerSize {
			return nil, fmt.Errorf("record of %d bytes is shorter than its header and its owner", len(raw))
		}
		h.Owner, data = DecodeOwner(data), data[OwnerSize:]
	}
	if h.HasParent {
		if len(data) < parentSize {
			return nil, fmt.Errorf("record of %d bytes is shorter than its header and its parent", len(raw))
		}
		h.Parent, data = decodeParent(data), data[parentSize:]
	}
	if h.LogSize > logSize+stashSize || h.Frames > maxFrames || h.Stack > maxWords {
		return nil, fmt.Errorf("record of a session speaks of %d bytes of log, %d calls and %d addresses: none has as many", h.LogSize, h.Frames, h.Stack)
	}
	need := int(h.LogSize) + h.Frames*CallSize + 8*h.Stack + BranchSize*h.Branches
	if h.HasOffCPU {
		need += 8 * (1 + h.Frames)
	}
	if need > len(data) {
		return nil, fmt.Errorf("record of a session has %d bytes, its header speaks of %d", len(data), need)
	}
	if raw[unsafe.Offsetof(l.More)]&moreUser == 0 {
		return data, nil
	}
	h.Tail = data[need:]
	var s Section
	for rest := h.Tail; len(rest) > 0; {
		if rest, err = DecodeSection(rest, &s); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// What follows the branches of a session's record.
const (
	moreOffCPU = byte(engineSessionMoreMORE_OFF_CPU)
	moreUser   = byte(engineSessionMoreMORE_USER)
)

// Event returns an event of the session's thread when the session was reported. It has the section of the record's end.
func (h *SessionHeader) Event() Event {
	return Event{PID: h.PID, TID: h.TID, Inner: h.Inner, Time: h.End, CPU: h.CPU, Comm: h.Comm}
}

// OwnerOf returns the owner of a raw record, of a session if sessions is set, else of a call
// whose records have one. ok is false if it has none.
func OwnerOf(raw []byte, sessions bool) (o Owner, ok bool) {
	at := EventSize
	if sessions {
		at = SessionHeaderSize
	}
	switch {
	case len(raw) < at+OwnerSize || IsLost(raw):
		return o, false
	case sessions && raw[unsafe.Offsetof(engineSessionRecord{}.Owner)] == 0:
		return o, false
	}
	return DecodeOwner(raw[at:]), true
}

// LookAt reports whether a session's record says that user space is to look at its process, since MapSpanPlaces lacks it or
// what that has may have changed: global is its number in the initial PID namespace, inner that in ours.
func LookAt(raw []byte) (global uint32, inner Inner, ok bool) {
	var l engineSessionRecord
	if len(raw) < SessionHeaderSize || IsLost(raw) || raw[unsafe.Offsetof(l.Parent)] == 0 {
		return 0, inner, false
	}
	var h SessionHeader
	if _, err := DecodeSession(raw, &h); err != nil || !h.Parent.Look {
		return 0, inner, false
	}
	return h.PID, h.Inner, true
}

// OffCPU reads off-CPU times in ns: of the session until the record was sent and, of call i in the
// record, its own or, while it is in flight, that of the session before it. data is what follows the
// branches. Both are 0 if the record has none.
func (h *SessionHeader) OffCPU(data []byte) (total uint64, of func(i int) uint64) {
	if !h.HasOffCPU {
		return 0, func(int) uint64 { return 0 }
	}
	return binary.LittleEndian.Uint64(data), func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*(1+i):]) }
}

// A SessionCall is one call in a session's record.
type SessionCall struct {
	Entry, Duration, Result uint64
	Func                    uint32
	// Values is 1 + the offset in the log of all arguments, Item that of the values of a SPEC; 0:
	// there are none. In a traced session, Values is that of what was logged last, and Item means
	// nothing.
	Values, Item uint32
	Flags        uint32
	// Returned is the low half of the address that the call returned to, 0 if that is not known.
	Returned uint32
}

// DecodeCall reads one call; raw has at least CallSize bytes.
func DecodeCall(raw []byte) SessionCall {
	var l engineCall
	le := binary.LittleEndian
	c := SessionCall{
		Entry:    le.Uint64(raw[unsafe.Offsetof(l.Entry):]),
		Duration: le.Uint64(raw[unsafe.Offsetof(l.Duration):]),
		Result:   le.Uint64(raw[unsafe.Offsetof(l.Result):]),
		Func:     le.Uint32(raw[unsafe.Offsetof(l.Func):]),
		Values:   le.Uint32(raw[unsafe.Offsetof(l.Values):]),
		Item:     le.Uint32(raw[unsafe.Offsetof(l.Item):]),
		Flags:    le.Uint32(raw[unsafe.Offsetof(l.Flags):]),
	}
	if c.Flags&CallReturns != 0 {
		c.Returned = le.Uint32(raw[unsafe.Offsetof(l.Sp):])
	}
	return c
}

// AppendSession is the inverse of DecodeSession's header, for tests.
func AppendSession(dst []byte, h *SessionHeader) []byte {
	var l engineSessionRecord
	le := binary.LittleEndian
	b := make([]byte, SessionHeaderSize)
	for off, v := range map[uintptr]uint64{unsafe.Offsetof(l.Start): h.Start, unsafe.Offsetof(l.End): h.End} {
		le.PutUint64(b[off:], v)
	}
	for off, v := range map[uintptr]uint32{
		unsafe.Offsetof(l.Tgid): h.PID, unsafe.Offsetof(l.Tid): h.TID,
		unsafe.Offsetof(l.InnerTgid): h.Inner.PID, unsafe.Offsetof(l.InnerTid): h.Inner.TID, unsafe.Offsetof(l.Func): h.Func,
		unsafe.Offsetof(l.LogBase): h.LogBase, unsafe.Offsetof(l.LogSize): h.LogSize, unsafe.Offsetof(l.LostDeep): h.LostDeep,
		unsafe.Offsetof(l.LostValues): h.LostValues, unsafe.Offsetof(l.LostChunks): h.LostChunks, unsafe.Offsetof(l.LostReturns): h.LostReturns,
		unsafe.Offsetof(l.LostRoom): h.LostRoom, unsafe.Offsetof(l.LostChains): h.LostChains,
	} {
		le.PutUint32(b[off:], v)
	}
	for off, v := range map[uintptr]int{
		unsafe.Offsetof(l.Cpu): int(h.CPU), unsafe.Offsetof(l.Depth): h.Depth, unsafe.Offsetof(l.Frames): h.Frames,
		unsafe.Offsetof(l.Stitched): h.Stitched, unsafe.Offsetof(l.Stack): h.Stack,
	} {
		le.PutUint16(b[off:], uint16(v))
	}
	b[unsafe.Offsetof(l.Kind)] = byte(h.Kind)
	b[unsafe.Offsetof(l.Failed)], b[unsafe.Offsetof(l.Interrupt)], b[unsafe.Offsetof(l.Ours)] = flag(h.Failed), flag(h.Interrupt)+flag(h.Hard), flag(h.Inner.Ours)
	if h.HasOffCPU {
		b[unsafe.Offsetof(l.More)] |= moreOffCPU
	}
	if len(h.Tail) > 0 { // The caller appends the tail.
		b[unsafe.Offsetof(l.More)] |= moreUser
	}
	copy(b[unsafe.Offsetof(l.Comm):], h.Comm[:])
	copy(b[unsafe.Offsetof(l.Leader):], h.Leader[:])
	if h.HasOwner {
		b[unsafe.Offsetof(l.Owner)] = 1
		b = AppendOwner(b, h.Owner)
	}
	if h.HasParent {
		b[unsafe.Offsetof(l.Parent)] = 1
		b = appendParent(b, h.Parent)
	}
	return append(dst, b...)
}

// AppendCall is the inverse of DecodeCall.
func AppendCall(dst []byte, c SessionCall) []byte {
	var l engineCall
	le := binary.LittleEndian
	b := make([]byte, CallSize)
	le.PutUint64(b[unsafe.Offsetof(l.Entry):], c.Entry)
	le.PutUint64(b[unsafe.Offsetof(l.Duration):], c.Duration)
	le.PutUint64(b[unsafe.Offsetof(l.Result):], c.Result)
	le.PutUint32(b[unsafe.Offsetof(l.Sp):], c.Returned)
	le.PutUint32(b[unsafe.Offsetof(l.Func):], c.Func)
	le.PutUint32(b[unsafe.Offsetof(l.Values):], c.Values)
	le.PutUint32(b[unsafe.Offsetof(l.Item):], c.Item)
	le.PutUint32(b[unsafe.Offsetof(l.Flags):], c.Flags)
	return append(dst, b...)
}
