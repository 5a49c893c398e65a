// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// uevents are what the kernel tells of devices: of a CPU as soon as it has been switched on completely, or off (device_online and
// device_offline of drivers/base/core.c). Of one that was on and is off again nothing else is left. Network namespaces of other user
// namespaces than the first are told nothing (uevent_net_init of lib/kobject_uevent.c).
type uevents struct {
	fd  int
	buf []byte
}

func openUevents() (*uevents, error) {
	const fromKernel, room = 1, 1 << 20
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("socket of uevents: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) // for a flood of other devices
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind socket of uevents: %w", err), unix.Close(fd))
	}
	return &uevents{fd, make([]byte, 16<<10)}, nil
}

// read implements teller.
func (u *uevents) read() (all []switched, missed bool) {
	for {
		n, from, err := unix.Recvfrom(u.fd, u.buf, 0)
		switch {
		case errors.Is(err, unix.ENOBUFS): // some did not find room
			missed = true
		case errors.Is(err, unix.EINTR):
		case err != nil: // EAGAIN: there are no more
			return all, missed
		default:
			sender, ok := from.(*unix.SockaddrNetlink)
			if s, is := parseSwitched(u.buf[:n]); is && ok && sender.Pid == 0 { // others than the kernel may send, too
				all = append(all, s)
			}
		}
	}
}

func (u *uevents) close() error { return unix.Close(u.fd) }

// mostNumber bounds the number of a CPU: NR_CPUS is less.
const mostNumber = 1 << 16

// parseSwitched reads a message of a CPU: "online@/devices/system/cpu/cpu1" and lines that end in NULs.
func parseSwitched(message []byte) (s switched, ok bool) {
	head, _, _ := bytes.Cut(message, []byte{0})
	action, device, _ := bytes.Cut(head, []byte("@"))
	number, ok := bytes.CutPrefix(device, []byte("/devices/system/cpu/cpu"))
	s.on = string(action) == "online"
	if !ok || !s.on && string(action) != "offline" {
		return s, false
	}
	n, err := strconv.ParseUint(string(number), 10, 64)
	s.number = int(n)
	return s, err == nil && n < mostNumber
}
