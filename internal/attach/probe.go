// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// never is when an architecture gets what no kernel has there yet.
var never = unknownSince

// capabilities say what doctor calls each, which Linux has it, and how it is tried.
// Debian's 6.1 is new enough for kprobe.multi, and built without FPROBE. The table is
// never changed.
var capabilities = [numCapabilities]struct {
	name  string
	since version
	arm64 version // the same there, if that is later
	needs string  // of the configuration, or of the machine
	try   func(types *btf.Cache) error
}{
	CapBPF:            {name: "bpf system call", since: oldest, needs: "CONFIG_BPF_SYSCALL, and the rights of this process", try: tryBPF},
	CapReadKernel:     {name: "reading kernel memory", since: oldest, needs: "no lockdown", try: tryReadKernel},
	CapRingBuffer:     {name: "ring buffer", since: version{5, 8}, try: tryRingBuffer},
	CapFentry:         {name: "fentry", since: version{5, 5}, arm64: version{6, 4}, try: tryFentry},
	CapFexit:          {name: "fexit", since: version{5, 5}, arm64: version{6, 4}, try: tryFexit},
	CapKprobe:         {name: "kprobe", since: oldest, needs: "CONFIG_KPROBES", try: func(types *btf.Cache) error { return tryKprobe(types, link.Kprobe, 0) }},
	CapKretprobe:      {name: "kretprobe", since: oldest, needs: "CONFIG_KRETPROBES", try: func(types *btf.Cache) error { return tryKprobe(types, link.Kretprobe, 0) }},
	CapKprobeMulti:    {name: "kprobe.multi", since: version{5, 18}, arm64: version{6, 14}, needs: "CONFIG_FPROBE", try: func(types *btf.Cache) error { return tryMulti(types, ebpf.AttachTraceKprobeMulti) }},
	CapKretprobeMulti: {name: "kretprobe.multi", since: version{5, 18}, arm64: version{6, 14}, needs: "CONFIG_FPROBE", try: tryKretprobeMulti},
	CapKprobeSession:  {name: "kprobe.session", since: version{6, 10}, arm64: version{6, 14}, needs: "CONFIG_FPROBE", try: tryKprobeSession},
	CapFsession:       {name: "fsession", since: fsessionSince, try: tryFsession},
	CapTracingMulti:   {name: "tracing_multi", since: tracingMultiSince, arm64: never, try: tryTracingMulti},
	CapFuncIP:         {name: "bpf_get_func_ip", since: version{5, 15}, try: tryFuncIP}, // in programs of both fentry and kprobes
	CapKprobeCookie:   {name: "kprobe cookie", since: version{5, 15}, try: func(types *btf.Cache) error { return tryKprobe(types, link.Kprobe, 1, asm.FnGetAttachCookie.Call()) }},
	CapFentryCookie:   {name: "fentry cookie", since: version{5, 19}, try: tryFentryCookie},
	CapRdonlyCast:     {name: "bpf_rdonly_cast", since: version{6, 2}, try: tryRdonlyCast},
	CapBranchSnapshot: {name: "branch records", since: version{5, 16}, needs: "hardware that records branches", try: tryBranchSnapshot},
}

// takes is what a kernel must have for a capability that not every kernel has:
// "Linux 5.18 and CONFIG_FPROBE", "Linux 7.3 on amd64".
func (c Capability) takes(arch string) string {
	r := &capabilities[c]
	since := r.since
	if arch == "arm64" && r.arm64 != (version{}) && r.arm64 != never {
		since = r.arm64
	}
	text := "Linux " + since.String()
	if r.arm64 == never {
		text += " on amd64"
	}
	if r.needs != "" {
		text += " and " + r.needs
	}
	return text
}

// String returns the name that `ksnoop doctor` prints.
func (c Capability) String() string {
	if c < numCapabilities {
		return capabilities[c].name
	}
	return fmt.Sprintf("Capability(%d)", uint8(c))
}

// Probe tries one capability and leaves nothing behind. Nil means that the
// kernel has it. An error that is ebpf.ErrNotSupported means that it does not;
// any other one may be due to a lack of privileges.
func (c Capability) Probe() error { return c.ProbeWith(btf.NewCache()) }

// ProbeWith is Probe with what was read of the kernel's types: to read them takes longer than
// all else.
func (c Capability) ProbeWith(types *btf.Cache) error {
	if c >= numCapabilities {
		return fmt.Errorf("%s is not known", c)
	}
	if err := capabilities[c].try(types); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Probe tries the given capabilities, or all if none is given. If the bpf
// system call itself is refused, nothing that needs it is tried. It stops
// trying, but not answering, when ctx is done.
func Probe(ctx context.Context, which ...Capability) Capabilities {
	types := btf.NewCache()
	return probe(ctx, which, func(c Capability) error { return c.ProbeWith(types) })
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
