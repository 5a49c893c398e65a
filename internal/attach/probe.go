// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
)

// A Capability is something that a kernel lets a tracer do.
type Capability uint8

// The capabilities, each tried by doing it.
const (
	CapBPF            Capability = iota // the bpf system call, for this process
	CapReadKernel                       // reading kernel memory; not under lockdown
	CapRingBuffer                       // Linux 5.8
	CapFentry                           // Linux 5.5 on x86, 6.4 on arm64
	CapFexit                            // the same
	CapKprobe                           // CONFIG_KPROBES
	CapKretprobe                        // CONFIG_KRETPROBES
	CapKprobeMulti                      // Linux 5.18, CONFIG_FPROBE
	CapKprobeSession                    // Linux 6.10, CONFIG_FPROBE
	CapFsession                         // BPF_TRACE_FSESSION, Linux 7.0
	CapTracingMulti                     // BPF_LINK_TYPE_TRACING_MULTI, Linux 7.3, not on arm64
	CapFuncIP                           // bpf_get_func_ip in fentry and kprobe programs, Linux 5.15
	CapKprobeCookie                     // Linux 5.15
	CapFentryCookie                     // Linux 5.19
	CapRdonlyCast                       // bpf_rdonly_cast, Linux 6.2
	CapBranchSnapshot                   // Linux 5.16 and hardware that records branches
	numCapabilities
)

var capabilityNames = [numCapabilities]string{
	CapBPF:            "bpf system call",
	CapReadKernel:     "reading kernel memory",
	CapRingBuffer:     "ring buffer",
	CapFentry:         "fentry",
	CapFexit:          "fexit",
	CapKprobe:         "kprobe",
	CapKretprobe:      "kretprobe",
	CapKprobeMulti:    "kprobe.multi",
	CapKprobeSession:  "kprobe.session",
	CapFsession:       "fsession",
	CapTracingMulti:   "tracing_multi",
	CapFuncIP:         "bpf_get_func_ip",
	CapKprobeCookie:   "kprobe cookie",
	CapFentryCookie:   "fentry cookie",
	CapRdonlyCast:     "bpf_rdonly_cast",
	CapBranchSnapshot: "branch records",
}

// String returns the name that `ksnoop doctor` prints.
func (c Capability) String() string {
	if c < numCapabilities {
		return capabilityNames[c]
	}
	return fmt.Sprintf("Capability(%d)", uint8(c))
}

// Probe tries one capability and leaves nothing behind. Nil means that the
// kernel has it. An error that is ebpf.ErrNotSupported means that it does not;
// any other one may be due to a lack of privileges.
func (c Capability) Probe() error {
	if c >= numCapabilities {
		return fmt.Errorf("%s is not known", c)
	}
	if err := c.try(); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// A Support is whether a kernel has a capability.
type Support struct {
	Capability Capability
	Err        error // why not; nil if it has it
}

// Capabilities are what was tried, in the order of the constants.
type Capabilities []Support

// errNotTried is the answer for a capability that was not tried.
var errNotTried = errors.New("not tried")

// Err returns why the kernel does not have a capability, nil if it has.
func (cs Capabilities) Err(c Capability) error {
	for _, s := range cs {
		if s.Capability == c {
			return s.Err
		}
	}
	return errNotTried
}

// Has reports whether the kernel has a capability.
func (cs Capabilities) Has(c Capability) bool { return cs.Err(c) == nil }

// Probe tries the given capabilities, or all if none is given. If the bpf
// system call itself is refused, nothing that needs it is tried. It stops
// trying, but not answering, when ctx is done.
func Probe(ctx context.Context, which ...Capability) Capabilities {
	return probe(ctx, which, Capability.Probe)
}

func probe(ctx context.Context, which []Capability, try func(Capability) error) Capabilities {
	if len(which) == 0 {
		for c := range numCapabilities {
			which = append(which, c)
		}
	}
	cs := make(Capabilities, 0, len(which))
	var refused error // of the bpf system call
	for _, c := range which {
		err := ctx.Err()
		switch {
		case err != nil:
		case refused != nil:
			err = refused
		default:
			err = try(c)
		}
		if c == CapBPF {
			refused = err
		}
		cs = append(cs, Support{c, err})
	}
	return cs
}
