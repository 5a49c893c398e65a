// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// benchKernels are those whose costs are known and kept, where none are asked for.
const benchKernels = "6.12 newest"

// benchmark runs the live benchmarks, with the instruction clock, and reports
// whether all costs were within their gates.
func benchmark(ctx context.Context, o options, w io.Writer) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	kernels, err := findKernels(ctx, vm.Choices(benchKernels), w)
	if err != nil {
		return false, err
	}
	loads, err := payloads(ctx, o, kernels, dir)
	if err != nil {
		return false, err
	}
	ok = true
	for _, k := range kernels {
		within, err := benchmarkOn(ctx, o, k.Kernel, loads[k.Arch], w)
		if err != nil {
			return false, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		ok = ok && within
	}
	return ok, nil
}

// settle is how long Linux 7 takes after boot until a system call costs what it
// will cost later: a read(2) of a byte 2,785 instructions before, 670 after.
const settle = "4"

func benchmarkOn(ctx context.Context, o options, k vm.Kernel, load *payload, w io.Writer) (ok bool, err error) {
	l := &live{guest: vm.Guest{Kernel: k, Files: load.files, ICount: true}, load: load, options: o}
	defer l.close()
	if err := l.takeAlong(ctx); err != nil {
		return false, err
	}
	if err := l.boot(ctx); err != nil {
		return false, err
	}
	if _, err := l.machine.Run(ctx, vm.Command{Args: []string{"sleep", settle}}); err != nil {
		return false, err
	}
	pattern := o.run
	if pattern == "" {
		pattern = "^BenchmarkLive"
	}
	fmt.Fprintf(w, "kernel: %s %s\n", k.Name, k.Release)
	for _, p := range load.programs {
		if err := l.run(ctx, p, []string{"-test.run=^$", "-test.bench=" + pattern}, w); err != nil {
			return false, err
		}
	}
	return !l.failed, nil
}
