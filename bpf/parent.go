// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"unsafe"
)

// A ParentPlace says where the engine looks for the span of the traced program that a session belongs to, as bits.
type ParentPlace uint8

const (
	ParentGo      = ParentPlace(engineParentPlacePARENT_GO)      // the stacks of goroutines, of programs in MapSpanPlaces
	ParentEnviron = ParentPlace(engineParentPlacePARENT_ENVIRON) // TRACEPARENT in the environment
	ParentThread  = ParentPlace(engineParentPlacePARENT_THREAD)  // the thread's context record, of programs in MapSpanPlaces
)

// Places reports whether MapSpanPlaces is used.
func (p ParentPlace) Places() bool { return p&(ParentGo|ParentThread) != 0 }

// A ParentKind says what was found.
type ParentKind uint8

const (
	ParentNone = ParentKind(engineParentKindPARENT_NONE)
	ParentSpan = ParentKind(engineParentKindPARENT_SPAN) // ParentSpanSize bytes: the numbers of a trace and a span
	ParentText = ParentKind(engineParentKindPARENT_TEXT) // a traceparent
)

// ParentSpanSize is the size of a trace's and a span's number, in bytes.
const ParentSpanSize = 16 + 8

// A ParentLack says why nothing was found.
type ParentLack uint8

const (
	LackSpan       = ParentLack(engineParentLackLACK_SPAN)       // there is none
	LackUnknown    = ParentLack(engineParentLackLACK_UNKNOWN)    // MapSpanPlaces does not have the process
	LackUnreadable = ParentLack(engineParentLackLACK_UNREADABLE) // memory of the process was not readable
	LackDeep       = ParentLack(engineParentLackLACK_DEEP)       // there is more than is searched
	LackInterrupt  = ParentLack(engineParentLackLACK_INTERRUPT)  // it is an interrupt's
	LackUnsampled  = ParentLack(engineParentLackLACK_UNSAMPLED)  // its program does not export it
)

// A Parent is what was found of the span that a session belongs to.
type Parent struct {
	Kind ParentKind
	Why  ParentLack // there is none
	Size uint8      // of a text, of which Data may have the beginning only
	Look bool       // MapSpanPlaces is to be told of the process
	Data [56]byte
}

// Bytes returns what was found; nil for a text that is cut off.
func (p *Parent) Bytes() []byte {
	switch {
	case p.Kind == ParentSpan:
		return p.Data[:ParentSpanSize]
	case p.Kind == ParentText && int(p.Size) <= len(p.Data):
		return p.Data[:p.Size]
	}
	return nil
}

const parentSize = int(unsafe.Sizeof(engineParent{}))

// decodeParent reads a parent; raw has at least parentSize bytes.
func decodeParent(raw []byte) Parent {
	var l engineParent
	p := Parent{Kind: ParentKind(raw[unsafe.Offsetof(l.Kind)]), Why: ParentLack(raw[unsafe.Offsetof(l.Why)]), Size: raw[unsafe.Offsetof(l.Size)], Look: raw[unsafe.Offsetof(l.Look)] != 0}
	copy(p.Data[:], raw[unsafe.Offsetof(l.Data):])
	return p
}

// appendParent is the inverse of decodeParent.
func appendParent(dst []byte, p Parent) []byte {
	var l engineParent
	b := make([]byte, parentSize)
	b[unsafe.Offsetof(l.Kind)], b[unsafe.Offsetof(l.Why)], b[unsafe.Offsetof(l.Size)], b[unsafe.Offsetof(l.Look)] = byte(p.Kind), byte(p.Why), p.Size, flag(p.Look)
	copy(b[unsafe.Offsetof(l.Data):], p.Data[:])
	return append(dst, b...)
}

// MapSpanPlaces has a SpanPlace for each process that was looked at, by its number in the initial PID namespace. It is
// used if SessionSettings.Parent says so.
const MapSpanPlaces = engineMapSpanPlaces

const maxSpanPlaces = 1 << 14

// A ThreadAccess says how a thread's pointer to its context record is reached.
type ThreadAccess uint8

const (
	ThreadNone   = ThreadAccess(engineThreadAccessTHREAD_NONE)   // the program has none
	ThreadStatic = ThreadAccess(engineThreadAccessTHREAD_STATIC) // at a fixed distance from the thread pointer
	ThreadGlibc  = ThreadAccess(engineThreadAccessTHREAD_GLIBC)  // in a block of glibc's dynamic thread vector
	ThreadMusl   = ThreadAccess(engineThreadAccessTHREAD_MUSL)   // in a block of musl's
)

// A SpanPlace is what the engine is told of the program of a process. Started and Environ are those of
// /proc/PID/stat, so that it does not serve another process, or another program of the same one.
type SpanPlace struct {
	Started uint64 // in 1/100 s
	Environ uint64
	// Again is when user space is to look at the process again, by CLOCK_MONOTONIC in ns; 0: never.
	Again uint64
	// Table is the address of the table that makes a span of the OpenTelemetry SDK of Go an interface; 0: the
	// program has none.
	Table uint64
	TLS   int64 // where the goroutine is, from the thread pointer
	// Offsets in a span.
	Began, Ended, Trace, Span uint32
	// Access says how the pointer to the context record is reached, which is at Thread, from the thread pointer or in the
	// block with the number Module.
	Access ThreadAccess
	Thread int64
	Module uint64
}

// MarshalBinary implements encoding.BinaryMarshaler, as the map has it.
func (p SpanPlace) MarshalBinary() ([]byte, error) {
	var l engineSpanPlace
	le := binary.LittleEndian
	b := make([]byte, unsafe.Sizeof(l))
	le.PutUint64(b[unsafe.Offsetof(l.Started):], p.Started)
	le.PutUint64(b[unsafe.Offsetof(l.Environ):], p.Environ)
	le.PutUint64(b[unsafe.Offsetof(l.Again):], p.Again)
	le.PutUint64(b[unsafe.Offsetof(l.Table):], p.Table)
	le.PutUint64(b[unsafe.Offsetof(l.Tls):], uint64(p.TLS))
	le.PutUint32(b[unsafe.Offsetof(l.Began):], p.Began)
	le.PutUint32(b[unsafe.Offsetof(l.Ended):], p.Ended)
	le.PutUint32(b[unsafe.Offsetof(l.Trace):], p.Trace)
	le.PutUint32(b[unsafe.Offsetof(l.Span):], p.Span)
	b[unsafe.Offsetof(l.Access)] = byte(p.Access)
	le.PutUint64(b[unsafe.Offsetof(l.Thread):], uint64(p.Thread))
	le.PutUint64(b[unsafe.Offsetof(l.Module):], p.Module)
	return b, nil
}
