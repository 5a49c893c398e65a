// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxNesting is the kernel's EP_MAX_NESTS: how deep epoll descriptors may
// watch each other.
const maxNesting = 4

func nestedCases() []workCase {
	return []workCase{
		{"nested", "build a chain of epoll descriptors and poll it: ep_loop_check_proc calls itself, depth*(depth-1)/2 calls in all", nestedCase},
	}
}

func nestedCase(f *flag.FlagSet) func(io.Writer) error {
	depth := f.Int("depth", maxNesting, "`length` of the chain, 1 to 5")
	count := f.Int("count", 1, "how `often`")
	return func(w io.Writer) error {
		if *depth < 1 || *depth > maxNesting+1 {
			return usageError("-depth is not 1 to 5")
		}
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		// The end of the chain is ready, so a poll looks all the way down.
		if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
			return err
		}
		watched := pipe[0]
		for range *depth {
			outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
			if err != nil {
				return err
			}
			if err := unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, watched, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
				return fmt.Errorf("watch descriptor: %w", err)
			}
			watched = outer
		}
		for range *count {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(watched), Events: unix.POLLIN}}, 0)
			if err != nil || n != 1 {
				return fmt.Errorf("poll says %d ready: %w", n, err)
			}
		}
		fmt.Fprintf(w, "nested count=%d depth=%d result=1\n", *count, *depth)
		return nil
	}
}
