// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// leaveTime is how long Detach waits for the kernel if there is a hurry. It is shorter than the
// second that whoever ends at once waits for Detach.
const leaveTime = time.Second / 2

// A lasting closer is a link that the kernel may take long to remove. When the last trampoline
// program goes from a function, or a link of kprobe.multi goes, Linux 6.12 waits for a grace period
// of RCU tasks, a tenth of a second and more, and holds a lock meanwhile. Neither threads nor the
// end of the process make that shorter.
type lasting interface {
	closer
	// again opens the link once more. The kernel removes it when both are closed.
	again() (*os.File, error)
}

// A lastingLink hooks a program at one function by a trampoline, or at several by kprobe.multi.
type lastingLink struct{ loadedLink }

func (l lastingLink) again() (*os.File, error) {
	raw, ok := l.Link.(interface{ FD() int })
	if !ok {
		return nil, fmt.Errorf("%T has no descriptor", l.Link)
	}
	return duplicate(raw.FD())
}

func (l *tracingLink) again() (*os.File, error) { return duplicate(l.fd) }

var _ = []lasting{lastingLink{}, (*tracingLink)(nil)}

// lastingLinked is linked for such a link.
func lastingLinked(l link.Link, err error) (closer, error) {
	if err != nil {
		return nil, err
	}
	return lastingLink{loadedLink{l}}, nil
}

// A userLink is one of uprobe.multi. The kernel waits for two grace periods to remove it, some 0.2 s on
// Linux 7.3, but holds no lock meanwhile: many are removed at the same time. The links of perf events, which
// older kernels have, are removed one after another.
type userLink struct{ lastingLink }

// missed: the kernel skips no uprobes, and tells nothing.
func (userLink) missed() (n uint64, known bool) { return 0, true }

func userLinked(l link.Link, err error) (closer, error) {
	if err != nil {
		return nil, err
	}
	return userLink{lastingLink{loadedLink{l}}}, nil
}

// closeTogether closes links at the same time, and returns the others.
func closeTogether(opened []closer) (others []closer, err error) {
	var wait sync.WaitGroup
	errs := make([]error, len(opened))
	for i, c := range opened {
		if _, ok := c.(userLink); !ok {
			others = append(others, c)
			continue
		}
		wait.Go(func() { errs[i] = c.Close() })
	}
	wait.Wait()
	return others, errors.Join(errs...)
}

func duplicate(fd int) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(again), "link"), nil
}

// closeProbes closes what is attached, as closeAll does. If there is a hurry, what takes the kernel
// long goes to Options.Leave.
func (t *Tracer) closeProbes() error {
	probes, err := closeTogether(t.probes)
	errs := []error{err}
	t.probes = probes
	var since time.Time // of the hurry
	left := t.options.Leave == nil
	for i, c := range slices.Backward(t.probes) {
		if !left && t.hurried() {
			switch {
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > leaveTime:
				left = true
				errs = append(errs, t.leave(t.probes[:i+1]))
			}
		}
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// leave hands over the links that the kernel removes slowly.
func (t *Tracer) leave(opened []closer) error {
	var links []*os.File
	defer func() {
		for _, l := range links {
			l.Close() // whoever has it has one of its own
		}
	}()
	for _, c := range opened {
		if a, ok := c.(awaiting); ok {
			c = a.counting
		}
		if c, ok := c.(lasting); ok {
			l, err := c.again()
			if err != nil {
				return err
			}
			links = append(links, l)
		}
	}
	if len(links) == 0 {
		return nil
	}
	return t.options.Leave(links)
}
