// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A loadedLink is a link of the kernel's that is counting.
type loadedLink struct{ link.Link }

func linked(l link.Link, err error) (closer, error) {
	if err != nil {
		return nil, err
	}
	return loadedLink{l}, nil
}

// linkEvent hooks a program at a perf event, which the link keeps alive.
func linkEvent(prog *ebpf.Program, attr *unix.PerfEventAttr) (link.Link, error) {
	fd, err := unix.PerfEventOpen(attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open: %w", err)
	}
	raw, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: prog, Attach: ebpf.AttachPerfEvent})
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("attaching to the perf event: %w", err)
	}
	defer raw.Close()
	// What it is a link of, a raw one does not tell, nor what the kernel has missed.
	own, err := unix.FcntlInt(uintptr(raw.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the perf event's link: %w", err)
	}
	l, err := link.NewFromFD(own)
	if err != nil {
		return nil, fmt.Errorf("the perf event's link: %w", err)
	}
	return l, nil
}

// kprobeType is where the kernel tells the number of its source of kprobe events.
const kprobeType = "/sys/bus/event_source/devices/kprobe/type"

// kprobeEvents returns the type of kprobes as perf events.
func kprobeEvents() (uint32, error) {
	text, err := os.ReadFile(kprobeType)
	if err != nil {
		return 0, fmt.Errorf("kprobe events: %w", errors.Join(err, ebpf.ErrNotSupported))
	}
	kind, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("kprobe events: %w", err)
	}
	return uint32(kind), nil
}

// hookAddress attaches a kprobe to the instruction at an address, or a kretprobe
// to the function that begins there.
func hookAddress(addr uint64, e end, prog *ebpf.Program) (closer, error) {
	kind, err := kprobeEvents()
	if err != nil {
		return nil, err
	}
	attr := unix.PerfEventAttr{Type: kind, Ext2: addr, Size: unix.PERF_ATTR_SIZE_VER1} // no name, so by address
	if e == atReturn {
		attr.Config = 1 // format/retprobe
	}
	l, err := linkEvent(prog, &attr)
	if err != nil {
		return nil, fmt.Errorf("kprobe at %#x: %w", addr, err)
	}
	return linked(l, nil)
}
