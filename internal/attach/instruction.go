// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/plan"
)

// hookInstruction attaches a kprobe inside a function. Only the kernel, which
// decodes the instructions, knows where they begin. A function that has
// namesakes is told by its address.
func hookInstruction(p *plan.Probe, prog program) (l closer, err error) {
	if p.Func.Addr != 0 {
		l, err = prog.kprobeAt(p.Func.Addr+p.Hook.Offset, atEntry)
	} else {
		l, err = prog.kprobe(p.Func.Name, &link.KprobeOptions{Offset: p.Hook.Offset})
	}
	switch {
	case p.Hook.Inlined && errors.Is(err, unix.EINVAL):
		return nil, errors.New("the kernel lets nobody probe the function that it was inlined into")
	case p.Hook.Inlined && errors.Is(err, unix.EILSEQ):
		return nil, errors.New("the kernel patches its first instruction at run time")
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.EINVAL):
		// The link package says of all of them that the symbol does not exist.
		return nil, fmt.Errorf("no instruction begins there, or it is one that the kernel patches at run time or lets nobody trace: look at a disassembly of %s", p.Func.Name)
	}
	return l, err
}

// kprobeType is where the kernel tells the number of its source of kprobe events.
const kprobeType = "/sys/bus/event_source/devices/kprobe/type"

// hookAddress attaches a kprobe to the instruction at an address, or a kretprobe
// to the function that begins there.
func hookAddress(addr uint64, e end, prog *ebpf.Program) (closer, error) {
	text, err := os.ReadFile(kprobeType)
	if err != nil {
		return nil, fmt.Errorf("kprobe events: %w", errors.Join(err, ebpf.ErrNotSupported))
	}
	kind, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("kprobe events: %w", err)
	}
	attr := unix.PerfEventAttr{Type: uint32(kind), Ext2: addr, Size: unix.PERF_ATTR_SIZE_VER1} // no name, so by address
	if e == atReturn {
		attr.Config = 1 // format/retprobe
	}
	l, err := linkEvent(prog, &attr)
	if err != nil {
		return nil, fmt.Errorf("kprobe at %#x: %w", addr, err)
	}
	return l, nil
}
