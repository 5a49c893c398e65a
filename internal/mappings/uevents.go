// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// uevents are what the kernel tells of devices. Of a CPU that was on and is off again nothing else is left.
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

// on returns the CPUs that were switched on since the last call. all says that there may be others.
func (u *uevents) on() (numbers []int, all bool) {
	for {
		n, _, err := unix.Recvfrom(u.fd, u.buf, 0)
		switch {
		case errors.Is(err, unix.ENOBUFS): // some did not find room
			all = true
		case errors.Is(err, unix.EINTR):
		case err != nil: // EAGAIN: there are no more
			return numbers, all
		default:
			if number, ok := cpuOn(u.buf[:n]); ok {
				numbers = append(numbers, number)
			}
		}
	}
}

func (u *uevents) close() error { return unix.Close(u.fd) }

// cpuOn returns which CPU a message says to be on: "online@/devices/system/cpu/cpu1" and lines that end in NULs.
func cpuOn(message []byte) (number int, ok bool) {
	head, _, _ := bytes.Cut(message, []byte{0})
	text, ok := bytes.CutPrefix(head, []byte("online@/devices/system/cpu/cpu"))
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(string(text))
	return number, err == nil
}
