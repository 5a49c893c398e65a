// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// EventSize is the size of the header in front of every record's values.
const EventSize = int(unsafe.Sizeof(engineEvent{}))

// FrameSize is the size of a frame without the values of its record.
const FrameSize = int(unsafe.Sizeof(engineFrame{}))

// Byte offsets in a frame, for generated code.
const (
	FrameName   = int(unsafe.Offsetof(engineFrame{}.Sp))
	FrameProbe  = int(unsafe.Offsetof(engineFrame{}.Probe))
	FrameFar    = int(unsafe.Offsetof(engineFrame{}.Far)) // 0 in the table
	FrameFaults = int(unsafe.Offsetof(engineFrame{}.Event) + unsafe.Offsetof(engineEvent{}.Faults))
	FrameData   = FrameSize
	FrameEntry  = int(unsafe.Offsetof(engineFrame{}.Event) + unsafe.Offsetof(engineEvent{}.EntryTime))
)

// A Kind says at which end of a call a record was sent.
type Kind uint8

const (
	KindEntry  = Kind(engineKindKIND_ENTRY)  // a function was called
	KindReturn = Kind(engineKindKIND_RETURN) // it returned
	KindCall   = Kind(engineKindKIND_CALL)   // both in one record, sent at return
	KindLost   = Kind(engineKindKIND_LOST)   // records are missing here
)

// A Counter is what the engine counts: losses by cause, and what was left out on purpose.
type Counter uint32

const (
	LostRingbuf  = Counter(engineCounterLOST_RINGBUF)  // the ring buffer was full
	LostDepth    = Counter(engineCounterLOST_DEPTH)    // calls of a session nested deeper than it has room for, in flight or kept of a failure
	LostStash    = Counter(engineCounterLOST_STASH)    // no frame for another call in flight
	LostFamily   = Counter(engineCounterLOST_FAMILY)   // the family had no room for a forked process
	Fault        = Counter(engineCounterFAULT)         // a predicate read memory that cannot be read
	LostScratch  = Counter(engineCounterLOST_SCRATCH)  // all buffers for records with a tail were in use
	LostBranches = Counter(engineCounterLOST_BRANCHES) // branches were overwritten before they were sent
	// Of sessions.
	LostValues    = Counter(engineCounterLOST_VALUES)    // no room for a call's values
	LostReturn    = Counter(engineCounterLOST_RETURN)    // calls whose returns were not seen
	LostRecursion = Counter(engineCounterLOST_RECURSION) // calls that a program has made itself
	RateLimited   = Counter(engineCounterRATE_LIMITED)   // calls beyond the rate limit
	Unreadable    = Counter(engineCounterUNREADABLE)     // records of which some value could not be read
	Truncated     = Counter(engineCounterTRUNCATED)      // strings and buffers cut off
	Missed        = Counter(engineCounterMISSED)         // programs that the kernel did not run
	LostSession   = Counter(engineCounterLOST_SESSION)   // sessions for which there was no room
	LostNMI       = Counter(engineCounterLOST_NMI)       // sessions that would have begun in a non-maskable interrupt
	PausedTime    = Counter(engineCounterPAUSED_TIME)    // milliseconds in which the programs were paused
	MissedReturn  = Counter(engineCounterMISSED_RETURN)  // calls for whose return the kernel had no room
	// Sessions that are not reported.
	LeftFine  = Counter(engineCounterLEFT_FINE)  // they did not fail
	LeftError = Counter(engineCounterLEFT_ERROR) // they failed with an error that was not asked for
	LeftShort = Counter(engineCounterLEFT_SHORT) // they were shorter than asked for
	LeftUnmet = Counter(engineCounterLEFT_UNMET) // no call met its predicates
	LostChain = Counter(engineCounterLOST_CHAIN) // failing chains given up before it was known whether they were the reason
	// Overwritten are records that made room for newer ones in a flight recorder.
	Overwritten = Counter(engineCounterOVERWRITTEN)
	// Of calls that are added up.
	LostKey       = Counter(engineCounterLOST_KEY)        // no room for another key
	LostRow       = Counter(engineCounterLOST_ROW)        // the row was being changed
	LostKeptStack = Counter(engineCounterLOST_KEPT_STACK) // no room for another stack; the call was added up without it
	LostPath      = Counter(engineCounterLOST_PATH)       // no room for the way of another call
	// ShortStack are user stacks of which too little was copied.
	ShortStack = Counter(engineCounterSHORT_STACK)
	LostInner  = Counter(engineCounterLOST_INNER) // calls of entry functions taken for calls within an earlier one whose return was not seen
	// UnseenReturn are returns of functions of the process that the kernel will not show.
	UnseenReturn = Counter(engineCounterUNSEEN_RETURN)
	// MissedTask are execs and ends of tasks for which the kernel did not run the engine's own programs.
	MissedTask = Counter(engineCounterMISSED_TASK)
	// UnseenCode is what processes mapped, executed or forked and was not seen, so that stacks of theirs lack names.
	UnseenCode = Counter(engineCounterUNSEEN_CODE)
	// SwitchedOff are ftrace and kprobes, where the end found them off and something traced needs them.
	SwitchedOff = Counter(engineCounterSWITCHED_OFF)
	Counters    = Counter(engineCounterCOUNTERS) // how many there are
)

// Marked are the causes whose losses the engine marks in the stream.
var Marked = [...]Counter{LostRingbuf, LostStash, LostScratch, RateLimited, LostSession, LostNMI}

// An Event is the header of a record.
type Event struct {
	Time      uint64 // CLOCK_MONOTONIC ns, when it was sent
	EntryTime uint64 // the same for the call's entry; 0 if not asked for
	Faults    uint64 // bit i: slot i could not be read
	Probe     uint32 // index into the plan's probes
	PID, TID  uint32 // process and thread, in the initial PID namespace
	Inner     Inner
	CPU       uint16
	Kind      Kind
	HasTail   bool     // sections follow the values
	Comm      [16]byte // NUL-padded
}

// DecodeEvent reads the header of a record and returns it with the bytes that follow. Both guest
// architectures that ksnoop supports are little-endian.
func DecodeEvent(raw []byte, e *Event) (data []byte, err error) {
	if len(raw) < EventSize {
		return nil, fmt.Errorf("record of %d bytes is shorter than its header", len(raw))
	}
	var l engineEvent
	le := binary.LittleEndian
	e.Time = le.Uint64(raw[unsafe.Offsetof(l.Time):])
	e.EntryTime = le.Uint64(raw[unsafe.Offsetof(l.EntryTime):])
	e.Faults = le.Uint64(raw[unsafe.Offsetof(l.Faults):])
	e.Probe = le.Uint32(raw[unsafe.Offsetof(l.Probe):])
	e.PID = le.Uint32(raw[unsafe.Offsetof(l.Tgid):])
	e.TID = le.Uint32(raw[unsafe.Offsetof(l.Tid):])
	e.CPU = le.Uint16(raw[unsafe.Offsetof(l.Cpu):])
	e.Kind = Kind(raw[unsafe.Offsetof(l.Kind)])
	flags := raw[unsafe.Offsetof(l.Flags)]
	e.HasTail = flags&byte(engineEventFlagEVENT_TAIL) != 0
	e.Inner = decodeInner(raw, unsafe.Offsetof(l.InnerTgid), unsafe.Offsetof(l.InnerTid), flags&byte(engineEventFlagEVENT_OURS) != 0)
	copy(e.Comm[:], raw[unsafe.Offsetof(l.Comm):])
	return raw[EventSize:], nil
}

// IsLost reports whether a raw record is a mark, of KindLost. Records of sessions have another
// header, and are longer.
func IsLost(raw []byte) bool {
	return len(raw) == EventSize+LostSize && Kind(raw[unsafe.Offsetof(engineEvent{}.Kind)]) == KindLost
}

// LostSize is the size of the data of a record of KindLost.
const LostSize = int(unsafe.Sizeof(engineLost{})) - EventSize

// lostCount is where the number is in the data of a record of KindLost.
const lostCount = int(unsafe.Offsetof(engineLost{}.Count)) - EventSize

// DecodeLost reads what is missing where a record of KindLost stands: the cause, from the event, and
// how many, from the data.
func DecodeLost(e *Event, data []byte) (cause Counter, n uint64, err error) {
	if len(data) < LostSize || e.Probe >= uint32(Counters) {
		return 0, 0, fmt.Errorf("a mark of losses by cause %d, %d bytes", e.Probe, len(data))
	}
	return Counter(e.Probe), binary.LittleEndian.Uint64(data[lostCount:]), nil
}

// AppendLost appends the mark of n losses before a time.
func AppendLost(dst []byte, cause Counter, n, time uint64) []byte {
	dst = AppendEvent(dst, &Event{Kind: KindLost, Probe: uint32(cause), Time: time})
	return binary.LittleEndian.AppendUint64(dst, n)
}

// AppendEvent is the inverse of DecodeEvent, for recordings and tests.
func AppendEvent(dst []byte, e *Event) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, e.Time)
	dst = le.AppendUint64(dst, e.EntryTime)
	dst = le.AppendUint64(dst, e.Faults)
	dst = le.AppendUint32(dst, e.Probe)
	dst = le.AppendUint32(dst, e.PID)
	dst = le.AppendUint32(dst, e.TID)
	dst = le.AppendUint16(dst, e.CPU)
	var flags byte
	if e.HasTail {
		flags |= byte(engineEventFlagEVENT_TAIL)
	}
	if e.Inner.Ours {
		flags |= byte(engineEventFlagEVENT_OURS)
	}
	dst = append(dst, byte(e.Kind), flags)
	dst = le.AppendUint32(dst, e.Inner.PID)
	dst = le.AppendUint32(dst, e.Inner.TID)
	return append(dst, e.Comm[:]...)
}
