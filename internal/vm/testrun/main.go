// SPDX-License-Identifier: Apache-2.0

// Testrun runs the module's tests and says how many passed.
//
//	testrun [-unit [-vetted]] [-live [-all] [-debuginfo] [-table FILE]] [-bench] [-run REGEXP] [PACKAGE…]
//
// Unit tests run here, with the race detector but for those of norace.go. Live tests, which are those
// named TestLive… in files named …_live_test.go, run in a guest of each kernel
// of $KSNOOP_KERNELS, all packages' test programs in one boot. With -all, or where guests share the tests, a kernel has two
// guests, with half of its tests each; with -run it has one. Behind a kernel's name ":smoke" asks for one test of each feature only, in one guest, see smoke.go. Without -all,
// -debuginfo, -run, packages, that variable and $KSNOOP_SOAK, or with -turn, guests without ":smoke" share the tests, and
// all share the repeats of each test: see livetest.Share. Benchmarks named BenchmarkLive… run in guests whose clocks count instructions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm"
)

func main() {
	var o options
	flag.BoolVar(&o.unit, "unit", false, "run the unit tests")
	flag.BoolVar(&o.vetted, "vetted", false, "with -unit: go vet has passed, and go test need not run what it has of it")
	flag.BoolVar(&o.live, "live", false, "run the live tests in guests")
	flag.BoolVar(&o.bench, "bench", false, "run the live benchmarks in guests")
	flag.BoolVar(&o.all, "all", false, "all live tests on all kernels: "+vm.AllKernels)
	flag.StringVar(&o.table, "table", "", "with -live: write into this `file` what works on which kernel")
	flag.BoolVar(&o.debugInfo, "debuginfo", false, "with -live: put the kernels' debug info into the guests, and run the tests that need it")
	flag.StringVar(&o.with, "with", "", "with -live or -bench: take this installed `program` along, to compare with")
	flag.StringVar(&o.run, "run", "", "of the live tests or benchmarks only those that match this `regexp`")
	flag.IntVar(&o.turn, "turn", -1, "share the live tests among the guests as `make test` does when it prints this `number`; below 0 the commit's name decides")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up a test that says nothing for this `time`; on a slow machine for as many times longer")
	flag.Parse()
	if o.kernels = vm.TestKernels; o.all {
		o.kernels = vm.AllKernels
	}
	// What is asked for by name is run as a whole.
	o.share = o.turn >= 0 || !o.all && !o.debugInfo && o.run == "" && flag.NArg() == 0 && os.Getenv(vm.KernelsEnv) == "" && os.Getenv("KSNOOP_SOAK") == ""
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
		return benchmark(ctx, o, os.Stdout)
	}
	t := &tally{w: os.Stdout}
	var err error
	if o.unit {
		err = unitTests(ctx, o, t)
	}
	if o.live {
		err = errors.Join(err, liveTests(ctx, o, t))
	}
	if o.table != "" {
		err = errors.Join(err, t.rows.update(o.table, o.all))
	}
	fmt.Print(t.times)
	for _, f := range t.failures {
		fmt.Println("failed:", f)
	}
	for _, f := range t.flaky {
		fmt.Println("failed, and passed when run again:", f)
	}
	fmt.Println(t)
	return t.failed == 0, err
}

func unitTests(ctx context.Context, o options, t *tally) error {
	list := exec.CommandContext(ctx, "go", append([]string{"list"}, o.packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return err
	}
	runs := unitRuns(strings.Fields(string(out)))
	tallies, errs := make([]tally, len(runs)), make([]error, len(runs))
	var g errgroup.Group
	g.SetLimit(2) // a run of one package is mostly busy with one test
	for i, r := range runs {
		tallies[i].w = t.w
		g.Go(func() error {
			errs[i] = unitTest(ctx, o, r, &tallies[i])
			return nil
		})
	}
	_ = g.Wait()
	for i := range tallies {
		t.add(&tallies[i])
	}
	return errors.Join(errs...)
}

func unitTest(ctx context.Context, o options, r unitRun, t *tally) error {
	args := []string{"test", "-json", "-timeout", unitTimeout(o.all).String()}
	if o.vetted {
		args = append(args, "-vet=off")
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(args, r.flags, r.packages)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%.1f", livetest.SlowEnv, contention()), vm.KernelsEnv+"="+kernelList(o.kernels))
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

// unitTimeout is many times what a package takes on this machine as it is now. With all kernels, internal/vm
// boots each of them many times.
func unitTimeout(all bool) time.Duration {
	d := 30 * time.Minute
	if all {
		d = 2 * time.Hour
	}
	return time.Duration(contention() * float64(d))
}

// kernelList is $KSNOOP_KERNELS for tests that boot guests of their own.
func kernelList(list string) string {
	if names := os.Getenv(vm.KernelsEnv); names != "" {
		return names
	}
	return list
}
