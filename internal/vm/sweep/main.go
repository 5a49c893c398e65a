// SPDX-License-Identifier: Apache-2.0

// Sweep traces every function of a kernel that a method can attach to, a batch at a
// time, entry and return with all values, while a mixed load runs in the guest, and sees
// whether the guest lives on.
//
//	sweep -kernel 6.12 -attach fentry -state FILE
//
// A batch fails if the guest stops beating, if tracing fails, or if the kernel
// complains. It is then halved until the function is known, in a new guest each time.
// With -state a run goes on where the last one has ended. It exits with 1 if a
// function was found.
//
// In the guest the same program opens the kernel once and traces batch after batch, by
// package tracer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
	"github.com/ksnoop/ksnoop/layout"
)

// long is how long a batch is traced.
const long = 2 * time.Second

func main() {
	var o options
	inside := flag.Bool("inside", false, "trace batches from standard input here, in the guest")
	flag.StringVar(&o.kernel, "kernel", vm.KernelNames()[0], "`name` of the kernel, as guestrun has it")
	flag.StringVar(&o.method, "attach", "fentry", "`method` of ksnoop trace --attach")
	flag.StringVar(&o.state, "state", "", "`file` that says what was done already")
	flag.IntVar(&o.size, "size", 256, "`functions` in a batch")
	flag.IntVar(&o.most, "batches", 0, "end after so many `batches` (default all)")
	flag.DurationVar(&o.silence, "silence", time.Minute, "`time` without a beat after which a guest hangs")
	flag.Parse()
	method, ok := layout.MethodNamed(o.method)
	var err error
	switch {
	case !ok:
		err = fmt.Errorf("unknown method %q", o.method)
	case *inside:
		err = traceBatches(os.Stdin, os.Stdout, method, long)
	default:
		err = hunt(o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sweep: %v\n", err)
		os.Exit(1)
	}
}

// hunt makes a run and says what came of it.
func hunt(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &sweep{options: o}
	err := s.run(ctx)
	s.close()
	fmt.Printf("%s by %s: %d functions traced in %d batches of %.1fs, %d refused, %d at fault, %d batches left; %d calls, longest time without a beat %v\n",
		s.state.Release, o.method, s.state.Traced, s.state.Batches, s.state.Took.Seconds()/float64(max(1, s.state.Batches)),
		len(s.state.Refused), len(s.state.Faults), len(s.state.Left), s.state.Calls, s.state.Silent.Round(time.Millisecond))
	for _, f := range s.state.Faults {
		fmt.Printf("  %s: %s\n", f.Function, f.What)
	}
	if err == nil && len(s.state.Faults) > 0 {
		err = fmt.Errorf("%d functions at fault", len(s.state.Faults))
	}
	return err
}
