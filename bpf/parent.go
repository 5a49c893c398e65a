// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"unsafe"
)

// A ParentPlace says where the engine looks for the span of the traced program that a session belongs to, as bits.
type ParentPlace uint8

const (
	ParentGo      = ParentPlace(engineParentPlacePARENT_GO)      // the stacks of goroutines, of programs in MapGoPrograms
	ParentEnviron = ParentPlace(engineParentPlacePARENT_ENVIRON) // TRACEPARENT in the environment
)

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
	LackUnknown    = ParentLack(engineParentLackLACK_UNKNOWN)    // MapGoPrograms does not have the process
	LackUnreadable = ParentLack(engineParentLackLACK_UNREADABLE) // memory of the process was not readable
	LackDeep       = ParentLack(engineParentLackLACK_DEEP)       // there is more than is searched
	LackInterrupt  = ParentLack(engineParentLackLACK_INTERRUPT)  // it is an interrupt's
)

// A Parent is what was found of the span that a session belongs to.
type Parent struct {
	Kind ParentKind
	Why  ParentLack // there is none
	Size uint8      // of a text, of which Data may have the beginning only
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
	p := Parent{Kind: ParentKind(raw[unsafe.Offsetof(l.Kind)]), Why: ParentLack(raw[unsafe.Offsetof(l.Why)]), Size: raw[unsafe.Offsetof(l.Size)]}
	copy(p.Data[:], raw[unsafe.Offsetof(l.Data):])
	return p
}

// appendParent is the inverse of decodeParent.
func appendParent(dst []byte, p Parent) []byte {
	var l engineParent
	b := make([]byte, parentSize)
	b[unsafe.Offsetof(l.Kind)], b[unsafe.Offsetof(l.Why)], b[unsafe.Offsetof(l.Size)] = byte(p.Kind), byte(p.Why), p.Size
	copy(b[unsafe.Offsetof(l.Data):], p.Data[:])
	return append(dst, b...)
}

// MapGoPrograms has a GoProgram for each process that was looked at, by its number in the initial PID namespace. It is
// used if SessionSettings.Parent has ParentGo.
const MapGoPrograms = engineMapGoPrograms

const maxGoPrograms = 1 << 14

// A GoProgram is what the engine is told of the program of a process. Started and Environ are those of
// /proc/PID/stat, so that it does not serve another process, or another program of the same one.
type GoProgram struct {
	Started uint64 // in 1/100 s
	Environ uint64
	// Table is the address of the table that makes a span of the OpenTelemetry SDK an interface; 0: the
	// program has none, and is no business of ours.
	Table uint64
	TLS   int64 // where the goroutine is, from the thread pointer
	// Offsets in a span.
	Began, Ended, Trace, Span uint32
}

// MarshalBinary implements encoding.BinaryMarshaler, as the map has it.
func (g GoProgram) MarshalBinary() ([]byte, error) {
	var l engineGoProgram
	le := binary.LittleEndian
	b := make([]byte, unsafe.Sizeof(l))
	le.PutUint64(b[unsafe.Offsetof(l.Started):], g.Started)
	le.PutUint64(b[unsafe.Offsetof(l.Environ):], g.Environ)
	le.PutUint64(b[unsafe.Offsetof(l.Table):], g.Table)
	le.PutUint64(b[unsafe.Offsetof(l.Tls):], uint64(g.TLS))
	le.PutUint32(b[unsafe.Offsetof(l.Began):], g.Began)
	le.PutUint32(b[unsafe.Offsetof(l.Ended):], g.Ended)
	le.PutUint32(b[unsafe.Offsetof(l.Trace):], g.Trace)
	le.PutUint32(b[unsafe.Offsetof(l.Span):], g.Span)
	return b, nil
}
