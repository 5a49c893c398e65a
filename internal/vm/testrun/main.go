// SPDX-License-Identifier: Apache-2.0

// Testrun runs the module's tests and says how many passed.
//
//	testrun [-unit] [-live [-debuginfo]] [-bench] [-run REGEXP] [PACKAGE…]
//
// Unit tests run here, with the race detector. Live tests, which are those
// named TestLive… in files named …_live_test.go, run in a guest of each kernel
// of $KSNOOP_KERNELS: all packages' test programs in one boot. Benchmarks
// named BenchmarkLive… run in a guest whose clock counts instructions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	unit, live, bench bool
	debugInfo         bool
	run               string
	timeout           time.Duration
	packages          []string
}

func main() {
	var o options
	flag.BoolVar(&o.unit, "unit", false, "run the unit tests")
	flag.BoolVar(&o.live, "live", false, "run the live tests in guests")
	flag.BoolVar(&o.bench, "bench", false, "run the live benchmarks in a guest")
	flag.BoolVar(&o.debugInfo, "debuginfo", false, "with -live: put the kernels' debug info into the guests, and run the tests that need it")
	flag.StringVar(&o.run, "run", "", "of the live tests or benchmarks only those that match this `regexp`")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "`time` for each package's tests")
	flag.Parse()
	o.packages = flag.Args()
	if len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testrun: %v\n", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether all tests passed.
func run(ctx context.Context, o options) (bool, error) {
	if o.bench {
		return true, benchmark(ctx, o, os.Stdout)
	}
	t := &tally{w: os.Stdout}
	var err error
	if o.unit {
		err = unitTests(ctx, o, t)
	}
	if o.live {
		err = errors.Join(err, liveTests(ctx, o, t))
	}
	for _, f := range t.failures {
		fmt.Println("failed:", f)
	}
	fmt.Println(t)
	return t.failed == 0, err
}

func unitTests(ctx context.Context, o options, t *tally) error {
	args := append([]string{"test", "-race", "-json", "-skip", "^TestLive", "-timeout", o.timeout.String()}, o.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := t.read(out, "")
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && t.failed > 0 {
		err = nil // the tally has it
	}
	return errors.Join(readErr, err)
}

// toJSON pipes a test program's output through the converter of the Go
// distribution into the tally.
func toJSON(ctx context.Context, pkg, where string, t *tally) (w io.WriteCloser, wait func() error, err error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", pkg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	read := make(chan error, 1)
	go func() { read <- t.read(out, where) }()
	return in, func() error {
		in.Close()
		return errors.Join(<-read, cmd.Wait())
	}, nil
}
