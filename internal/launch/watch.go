// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Watch returns a channel that is closed when a process ends, which need not be
// a child of ours, and a function that gives up watching it.
func Watch(pid int) (ended <-chan struct{}, stop func() error, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // a thread, or no number of a process
		return nil, nil, fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return nil, nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	wake := make([]int, 2)
	if err := unix.Pipe2(wake, unix.O_CLOEXEC); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("watching process %d: %w", pid, err), unix.Close(fd))
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake[0]), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
				continue
			}
			if fds[0].Revents != 0 {
				close(done)
			}
			return
		}
	}()
	return done, func() error {
		err := unix.Close(wake[1])
		<-finished
		return errors.Join(err, unix.Close(wake[0]), unix.Close(fd))
	}, nil
}
