// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// A LogKind says what an entry of a session's log is.
type LogKind uint8

const (
	LogEntry = LogKind(engineLogKindLOG_ENTRY) // a call
	LogExit  = LogKind(engineLogKindLOG_EXIT)  // a return
	LogArgs  = LogKind(engineLogKindLOG_ARGS)  // all arguments of the last call
	LogItem  = LogKind(engineLogKindLOG_ITEM)  // values of a SPEC
	LogProbe = LogKind(engineLogKindLOG_PROBE) // values of an injected probe
	LogOpen  = LogKind(engineLogKindLOG_OPEN)  // as LogItem, of a call whose return is not in the log, or not yet
)

// HasValues reports whether an entry has values of a call.
func (k LogKind) HasValues() bool { return k == LogArgs || k == LogItem || k == LogOpen }

// A Logged is one entry of a session's log.
type Logged struct {
	Kind  LogKind
	Depth int    // calls in flight around this one
	Func  uint32 // id of the function
	Flags uint32 // of a return: CallFinished and so on
	Size  int    // bytes of the entry
	// Time is that of a call or a return. A return has Duration and Result, too.
	Time, Duration, Result uint64
	// OffCPU is for how long a call that has returned was off the CPU, OffSum the session until then
	// or, at a call, before it, in ns. They are 0 if they were not recorded.
	OffCPU, OffSum uint64
	Data           []byte // what follows the head
}

const logHeadSize = int(unsafe.Sizeof(engineLogHead{}))

// least is the least size of an entry of that kind.
func (k LogKind) least() int {
	switch k {
	case LogEntry:
		return int(unsafe.Sizeof(engineLogEntry{}))
	case LogExit:
		return int(unsafe.Sizeof(engineLogExit{}))
	}
	return logHeadSize
}

// DecodeLog reads the first entry of a log. Data is a part of b.
func DecodeLog(b []byte) (Logged, error) {
	if len(b) < logHeadSize {
		return Logged{}, fmt.Errorf("entry of a log has %d bytes", len(b))
	}
	var l engineLogExit
	le := binary.LittleEndian
	word := le.Uint32(b[unsafe.Offsetof(l.Head.Func):])
	e := Logged{Kind: LogKind(b[unsafe.Offsetof(l.Head.Kind)]), Depth: int(b[unsafe.Offsetof(l.Head.Depth)]),
		Size: int(le.Uint16(b[unsafe.Offsetof(l.Head.Size):])),
		Func: word & (1<<engineLogBitLOG_FLAGS_SHIFT - 1), Flags: word >> engineLogBitLOG_FLAGS_SHIFT}
	if e.Size < logHeadSize || e.Size > len(b) {
		return e, fmt.Errorf("entry of a log has %d bytes, there are %d", e.Size, len(b))
	}
	if e.Depth > MaxDepth {
		return e, fmt.Errorf("entry of a log is of a call below %d others", e.Depth)
	}
	if e.Size < e.Kind.least() {
		return e, fmt.Errorf("entry of kind %d of a log has %d bytes", e.Kind, e.Size)
	}
	switch e.Kind {
	case LogEntry:
		e.Time = le.Uint64(b[unsafe.Offsetof(engineLogEntry{}.Time):])
	case LogExit:
		e.Time, e.Duration, e.Result = le.Uint64(b[unsafe.Offsetof(l.Time):]), le.Uint64(b[unsafe.Offsetof(l.Duration):]), le.Uint64(b[unsafe.Offsetof(l.Result):])
	}
	e.Data = b[logHeadSize:e.Size]
	e.offCPU(b)
	return e, nil
}

// offCPU reads the off-CPU times of an entry that has them.
func (e *Logged) offCPU(b []byte) {
	le := binary.LittleEndian
	switch {
	case e.Kind == LogEntry && e.Size >= int(unsafe.Sizeof(engineLogEntryOff{})):
		e.OffSum = le.Uint64(b[unsafe.Offsetof(engineLogEntryOff{}.OffSum):])
	case e.Kind == LogExit && e.Size >= int(unsafe.Sizeof(engineLogExitOff{})):
		e.OffSum, e.OffCPU = le.Uint64(b[unsafe.Offsetof(engineLogExitOff{}.OffSum):]), le.Uint64(b[unsafe.Offsetof(engineLogExitOff{}.Off):])
	}
}

// Entered returns when the call began whose values e has, with LogItem or LogOpen; 0 if they are too short to tell.
func (e *Logged) Entered() uint64 {
	at := ItemHead + int(unsafe.Offsetof(engineEvent{}.EntryTime))
	if len(e.Data) < at+8 {
		return 0
	}
	return binary.LittleEndian.Uint64(e.Data[at:])
}

// A LoggedTarget is what one of the arguments of a LogArgs entry points to.
type LoggedTarget struct {
	Index int    // in ArgList.Targets
	Fault bool   // it could not be read
	Data  []byte // as many bytes as were captured
}

// DecodeTarget reads the first of the targets that follow the words of a LogArgs entry, and returns
// what follows it.
func DecodeTarget(b []byte) (t LoggedTarget, rest []byte, err error) {
	const head = int(unsafe.Sizeof(engineArgBytes{}))
	if len(b) < head {
		return t, nil, fmt.Errorf("target of %d bytes is shorter than its header", len(b))
	}
	var l engineArgBytes
	size := int(binary.LittleEndian.Uint16(b[unsafe.Offsetof(l.Size):]))
	t.Index, t.Fault = int(b[unsafe.Offsetof(l.Target)]), b[unsafe.Offsetof(l.Flags)]&byte(engineArgLimitTARGET_FAULT) != 0
	if len(b) < head+size {
		return t, nil, fmt.Errorf("target %d has %d bytes, there are %d", t.Index, size, len(b)-head)
	}
	t.Data = b[head : head+size]
	return t, b[min(len(b), head+(size+7)&^7):], nil
}
