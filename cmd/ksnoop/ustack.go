// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/mappings"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/process"
)

// How --ustack takes stacks of processes.
const (
	ustackPointers = "fp"
	ustackDwarf    = "dwarf"
)

// Bounds on how much of a stack is copied, in bytes. Sixty frames of C take some 6 KB.
const (
	usualCopy = 16 << 10
	leastCopy = 512
)

// A ustackFlag is --ustack.
type ustackFlag struct {
	how  string // "" if no stacks are wanted
	size uint32 // of copies
}

var _ pflag.Value = (*ustackFlag)(nil)

func (f *ustackFlag) wanted() bool { return f.how != "" }

// copied returns how many bytes are copied of a stack; 0 if the kernel walks it.
func (f *ustackFlag) copied() uint32 {
	if f.how != ustackDwarf {
		return 0
	}
	return f.size
}

// String implements pflag.Value.
func (f *ustackFlag) String() string { return f.how }

// Type implements pflag.Value.
func (f *ustackFlag) Type() string { return "HOW" }

// Set implements pflag.Value.
func (f *ustackFlag) Set(text string) error {
	how, size, sized := strings.Cut(text, ",")
	f.how, f.size = how, usualCopy
	switch {
	case how != ustackPointers && how != ustackDwarf:
		return fmt.Errorf("there are %s, by frame pointers, and %s or %s,SIZE, by unwind information", ustackPointers, ustackDwarf, ustackDwarf)
	case !sized:
		return nil
	case how == ustackPointers:
		return fmt.Errorf("a size goes with %s: the kernel copies nothing for frame pointers", ustackDwarf)
	}
	n, err := parseBytes(size)
	if err != nil {
		return fmt.Errorf("%q is %w", size, err)
	}
	if n < leastCopy || n > int(bpf.MaxUserCopy) || n%8 != 0 {
		return fmt.Errorf("a copy of a stack has %d to %dK bytes, a multiple of 8", leastCopy, bpf.MaxUserCopy>>10)
	}
	f.size = uint32(n)
	return nil
}

// users are the processes whose addresses are named.
type users struct {
	watcher *mappings.Watcher // nil: processes are not followed
	symbols *process.Symbols
	stderr  io.Writer
	stop    func() // ends learning; nil if there is nothing to learn
}

// openUsers follows the processes of this machine. Where that is not possible, addresses have
// names while their process lives.
func openUsers(unwinds bool, stderr io.Writer) *users {
	root := os.DirFS("/")
	u := &users{stderr: stderr}
	var source process.Source
	var err error
	if u.watcher, err = mappings.Open(); err != nil {
		fmt.Fprintf(stderr, "ksnoop: stacks of processes that have ended will lack names: %v\n", err)
		u.watcher = nil
	} else {
		source = u.watcher
		if err := u.watcher.Deaf(); err != nil {
			fmt.Fprintf(stderr, "ksnoop: processes that execute on a CPU that is on for less than a second may have false names: %v\n", err)
		}
	}
	u.symbols = process.Following(root, process.NumberingOf(root, os.Getpid()), source, unwinds)
	if u.watcher != nil {
		u.stop = u.learn()
	}
	return u
}

// learn has u.symbols look at what processes do, also while there is nothing to name. It returns what ends that.
func (u *users) learn() (stop func()) {
	const interval = 20 * time.Millisecond
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				u.symbols.Update()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-over
	})
}

// of returns what names the addresses of an event's process.
func (u *users) of(e *bpf.Event, comm string) output.Process { return u.symbols.Of(e, comm) }

// close ends following, on whose success nothing depends, and says what was not seen.
func (u *users) close() {
	if u == nil {
		return
	}
	if why := u.symbols.Unlined(); why != "" {
		fmt.Fprintln(u.stderr, "ksnoop: names, source lines or inlined functions of processes are missing:", why)
	}
	if u.watcher == nil {
		return
	}
	u.stop()
	if n := u.symbols.Unread(); n > 0 {
		fmt.Fprintf(u.stderr, "ksnoop: generated code of %s that ended has no names: where /tmp/perf-PID.map was could not be kept in time, or of so many\n", plural.Of(n, "process{es}"))
	}
	_ = u.watcher.Close()
}
