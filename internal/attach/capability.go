// SPDX-License-Identifier: Apache-2.0

package attach

import "errors"

// A Capability is something that a kernel lets a tracer do.
type Capability uint8

// The capabilities, each tried by doing it.
const (
	CapBPF Capability = iota
	CapReadKernel
	CapRingBuffer
	CapFentry
	CapFexit
	CapKprobe
	CapKretprobe
	CapKprobeMulti
	CapKretprobeMulti
	CapKprobeSession
	CapFsession
	CapTracingMulti
	CapFuncIP
	CapKprobeCookie
	CapFentryCookie
	CapRdonlyCast
	CapBranchSnapshot
	numCapabilities
)

// A Support is whether a kernel has a capability.
type Support struct {
	Capability Capability
	Err        error // why not; nil if it has it
}

// Capabilities are what was tried, in the order of the constants.
type Capabilities []Support

// errNotTried is the answer for a capability that was not tried.
var errNotTried = errors.New("not tried")

// lack returns why the kernel does not have a capability, nil if it has.
func (cs Capabilities) lack(c Capability) error {
	for _, s := range cs {
		if s.Capability == c {
			return s.Err
		}
	}
	return errNotTried
}

// Has reports whether the kernel has a capability.
func (cs Capabilities) Has(c Capability) bool { return cs.lack(c) == nil }
