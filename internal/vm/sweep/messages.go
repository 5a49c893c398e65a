// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// complaint matches a message with which the kernel says that something is wrong.
var complaint = regexp.MustCompile(`BUG|WARNING|Oops|stall|hung|lockup|Call Trace`)

// messages are those of the kernel, as they come.
type messages struct{ fd int }

// openMessages opens /dev/kmsg at its end. Reading does not wait for messages, which it
// would do by way of package os.
func openMessages() (*messages, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		return nil, errors.Join(fmt.Errorf("seek in /dev/kmsg: %w", err), unix.Close(fd))
	}
	return &messages{fd}, nil
}

func (m *messages) Close() error { return unix.Close(m.fd) }

// complaints returns what the kernel has said since it was last asked, if it has complained.
func (m *messages) complaints() (string, error) {
	var said strings.Builder
	line := make([]byte, 8<<10) // as much as a message may have
	for {
		n, err := unix.Read(m.fd, line)
		switch {
		case errors.Is(err, unix.EPIPE): // messages were overwritten; the next is the oldest that is left
			said.WriteString("...\n")
			continue
		case errors.Is(err, unix.EAGAIN):
			return complaintsIn(said.String()), nil
		case err != nil:
			return "", fmt.Errorf("read /dev/kmsg: %w", err)
		}
		said.WriteString(textOf(string(line[:n])))
		said.WriteByte('\n')
	}
}

// textOf returns the text of a message: "6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n".
func textOf(message string) string {
	_, text, _ := strings.Cut(message, ";")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// complaintsIn returns what was said if something is wrong.
func complaintsIn(said string) string {
	if complaint.MatchString(said) {
		return said
	}
	return ""
}
