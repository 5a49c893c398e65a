// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Session is a fully resolved request for sessions: which functions open
// one, which are recorded in it, and what is wanted of their calls. Like a
// Plan, it and recorded bytes are all that is needed to decode and print
// elsewhere.
type Session struct {
	// Functions are all that are traced. The kernel tells them by their index.
	Functions []*Function
	// Plan has the probes of the SPECs with items; Function.Probe is one of them.
	Plan *Plan
}

// A Function is a function that sessions look at.
type Function struct {
	ID     int // index in Session.Functions
	Func   kernel.Function
	Params []Param
	Result btf.Type // nil if the function returns nothing
	Class  ErrorClass
	Entry  bool   // opens a session
	Probe  *Probe // for a SPEC that asks for values or has predicates; nil if none does
}

// An ErrorClass says which results of a function mean that it failed.
type ErrorClass uint8

const (
	NeverFails   ErrorClass = iota // void, bool, unsigned, or narrower than 4 bytes
	FailsInt32                     // signed, 4 bytes: the low 32 bits are -4095…-1
	FailsInt64                     // signed, 8 bytes: -4095…-1
	FailsPointer                   // NULL or -4095…-1
)

// maxErrno is the kernel's MAX_ERRNO.
const maxErrno = 4095

// Failed reports whether a result, the whole of the return register, means
// that the function failed.
func (c ErrorClass) Failed(result uint64) bool {
	switch c {
	case FailsInt32:
		return uint32(result) >= -maxErrno&(1<<32-1)
	case FailsInt64:
		return result >= 1<<64-maxErrno
	case FailsPointer:
		return result == 0 || result >= 1<<64-maxErrno
	}
	return false
}

// classOf returns the error class of a result type; nil is void.
func classOf(t btf.Type) ErrorClass {
	if t == nil {
		return NeverFails
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return FailsPointer
	case *btf.Enum:
		if t.Size == 4 {
			return FailsInt32
		}
	case *btf.Int:
		switch {
		case t.Encoding != btf.Signed:
		case t.Size == 4:
			return FailsInt32
		case t.Size == 8:
			return FailsInt64
		}
	}
	return NeverFails
}
